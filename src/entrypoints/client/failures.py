"""What can go wrong for a client, each in one sentence that says what to do.

ClientFailure
├── BadConnection   what was given as address or token cannot be one
├── BadKey          what was given as a key cannot be one
├── Refused         the service answered, and said no
├── WithoutResult   the export has ended, and there is no file
├── OutOfReach      the service could not be reached, or was busy for too long
├── TimedOut        the export did not end in the time that the caller gave it
└── Unproven        what was downloaded is not what the service says it stored
"""

from entrypoints.client.answers import Problem


class ClientFailure(Exception):  # noqa: N818 - tells a failure of the service from an error of this program
    """The service did not do what it was asked for."""


class BadConnection(ClientFailure):
    """No address of a service, or no token. Nothing was asked."""


class BadKey(ClientFailure):
    """No idempotency key: empty, or not printable ASCII. Nothing was asked."""


class Refused(ClientFailure):
    """The service answered with a problem; the same request will be refused again. `advice` is a sentence."""

    def __init__(self, problem: Problem, *, advice: str = "") -> None:
        said = ": ".join(part for part in (problem.title or f"HTTP {problem.status}", problem.detail) if part)
        super().__init__(f"{said.removesuffix('.')}. {advice}" if advice else said)
        self.problem = problem


class WithoutResult(ClientFailure):
    """The export failed or was cancelled, or its file has expired or was deleted."""


class OutOfReach(ClientFailure):
    """No connection, or no answer but "later", for as long as the client is patient."""


class TimedOut(ClientFailure):
    """The export had not ended when the caller's time was over. It goes on."""


class Unproven(ClientFailure):
    """Length or digest of a download are not those that were promised. Nothing was kept."""
