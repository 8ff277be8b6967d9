"""THE TABLE OF PROBLEMS: every type of problem that the API answers with, and what its page says (RFC 9457).

The slug is a promise: clients program against it, so it is never renamed. Title and text may become better.
"""

from typing import Final

from msgspec import Struct

from domain.export import ErrorCode


class ProblemType(Struct, frozen=True):
    """One kind of problem: its page says what happened (`meaning`) and what to do (`remedy`)."""

    slug: str
    status: int
    title: str
    meaning: str
    remedy: str


PROBLEMS: Final[dict[str, ProblemType]] = {}


def _type(slug: str, status: int, title: str, meaning: str, remedy: str) -> ProblemType:
    PROBLEMS[slug] = kind = ProblemType(slug, status, title, meaning, remedy)
    return kind


_SAME_KEY: Final = "Send the same request again after the time in Retry-After, with the same Idempotency-Key."

INVALID_REQUEST: Final = _type(
    "invalid-request",
    400,
    "The request is not valid",
    "A member of the body, a query parameter or a header is unknown, missing, or has a value that is not accepted.",
    "Each entry of `errors` names one fault and where it is. Correct them and send the request again.",
)
MALFORMED_JSON: Final = _type(
    "malformed-json",
    400,
    "The body is not JSON",
    "The body is not one JSON text in UTF-8, names a member twice, or is nested deeper than 32 levels.",
    "Send what RFC 8259 describes, as a JSON library writes it.",
)
KEY_MISSING: Final = _type(
    "idempotency-key-missing",
    400,
    "An Idempotency-Key is needed",
    "This request makes something that must not be made twice, and carries no Idempotency-Key.",
    "Make a key that is new for each thing you want, such as a UUID, and send the same one when you repeat a request.",
)
KEY_MALFORMED: Final = _type(
    "idempotency-key-malformed",
    400,
    "The Idempotency-Key is not valid",
    "The key is there twice, is empty, is longer than 255 characters, or holds something else than printable ASCII.",
    'Send one Idempotency-Key: a bare word such as 5f0c-22 or a quoted string such as "monthly report".',
)
IMPORT_REFUSED: Final = _type(
    "import-refused",
    400,
    "Rows of the file were refused",
    "Rows of the file are at fault and `on_error` is `refuse`, so that nothing was imported.",
    "Correct the lines that `errors` names, or send the file with on_error=skip to import all others.",
)
UNAUTHENTICATED: Final = _type(
    "unauthenticated",
    401,
    "A valid token is needed",
    "The request carries no bearer token, or one that is unknown, was revoked, or belongs to a disabled user.",
    "Send `Authorization: Bearer fp_…` with a token that your operator issued.",
)
INSUFFICIENT_SCOPE: Final = _type(
    "insufficient-scope",
    403,
    "The token may not do this",
    "The token is valid and lacks the scope that `required_scope` names.",
    "Ask your operator for a token with that scope.",
)
NOT_FOUND: Final = _type(
    "not-found",
    404,
    "There is no such thing",
    "Nothing by that address is visible to you. Things of other owners look the same as things that never existed.",
    "Check the address. Ids are UUIDs in lower case, and paths have no slash at the end.",
)
METHOD_NOT_ALLOWED: Final = _type(
    "method-not-allowed",
    405,
    "The method is not allowed here",
    "The address exists and does not know the method of the request.",
    "Use one of the methods that the Allow header names.",
)
REQUEST_TIMEOUT: Final = _type(
    "request-timeout",
    408,
    "The body took too long to arrive",
    "The server waits a limited time for a request body, so that slow clients cannot hold it for ever.",
    "Send the request again over a faster connection, or send less.",
)
IDEMPOTENCY_CONFLICT: Final = _type(
    "idempotency-key-conflict",
    409,
    "The Idempotency-Key was used for something else",
    "An earlier request with this key had other parameters; `members` names those that differ.",
    "Send the earlier request unchanged to get its outcome, or use a new key.",
)
NAME_TAKEN: Final = _type(
    "name-taken",
    409,
    "The name is taken",
    "Something of that name exists.",
    "Choose another name.",
)
EXPORT_ENDED: Final = _type(
    "export-ended",
    409,
    "The export has ended already",
    "An export that succeeded or failed cannot be cancelled any more.",
    "Read its status. The file of a succeeded export can be deleted with DELETE on its result.",
)
EVENT_REFUSED: Final = _type(
    "event-refused",
    409,
    "The export's state does not allow this",
    "No rule leads from its state to what was asked for: only a failed export can be requeued, and only one that "
    "is queued or running can be cancelled.",
    "Read the export again, with its history, and decide anew.",
)
EXPORT_NOT_READY: Final = _type(
    "export-not-ready",
    409,
    "The export is not ready",
    "The file does not exist yet: the export is queued or running.",
    "Read the export's status after the time in Retry-After, and fetch the file once it has succeeded.",
)
EXPORT_WITHOUT_RESULT: Final = _type(
    "export-without-result",
    409,
    "The export ended without a file",
    "The export failed or was cancelled; `code` says why, and the export's `error` says more.",
    "Correct the cause and ask for a new export with a new Idempotency-Key.",
)
EXPORT_EXPIRED: Final = _type(
    "export-expired",
    410,
    "The file has expired",
    "Files are kept for a limited time, and this one could be read until `gone_at`.",
    "Send the export's `request` to POST /v1/exports with a new Idempotency-Key to make the file again.",
)
RESULT_DELETED: Final = _type(
    "result-deleted",
    410,
    "The file was deleted",
    "The file was deleted at `gone_at`, as its owner asked.",
    "Send the export's `request` to POST /v1/exports with a new Idempotency-Key to make the file again.",
)
PRECONDITION_FAILED: Final = _type(
    "precondition-failed",
    412,
    "The precondition does not hold",
    "The thing is of another version than If-Match names. The ETag header of this answer is the current one.",
    "Read the current version, decide anew, and send the request with its ETag.",
)
BODY_TOO_LARGE: Final = _type(
    "body-too-large",
    413,
    "The body is too large",
    "The body has more bytes than this address accepts.",
    "Send less; a large file of tasks goes to POST /v1/tasks/import, in parts where one is too large.",
)
UNSUPPORTED_MEDIA_TYPE: Final = _type(
    "unsupported-media-type",
    415,
    "The media type is not supported",
    "The Content-Type is missing, is not one that this address accepts, or names another charset than UTF-8.",
    "Send the body as one of the types in Accept-Post, Accept-Patch or Accept, uncompressed, in UTF-8.",
)
PRECONDITION_REQUIRED: Final = _type(
    "precondition-required",
    428,
    "If-Match is needed",
    "The request changes or removes a task and does not say which version of it is meant.",
    "Send the ETag that you read as If-Match, or `If-Match: *` to accept any version.",
)
TOO_MANY_REQUESTS: Final = _type(
    "too-many-requests",
    429,
    "Too many requests",
    "You sent more requests than one owner may send in the time that RateLimit-Policy names. Nothing was changed.",
    "Wait for the time in Retry-After. RateLimit tells with every answer how many requests are left.",
)
TOO_MANY_EXPORTS: Final = _type(
    "too-many-active-exports",
    429,
    "Too many of your exports have not ended",
    "You have as many queued and running exports as one owner may have. No export was made; the key is still free.",
    "Wait for one of them to end, or cancel one. Then send the same request again, with the same Idempotency-Key.",
)
INTERNAL_ERROR: Final = _type(
    "internal-error",
    500,
    "Something went wrong on our side",
    "The server met a defect of its own. What happened is in its log, under the `request_id`.",
    "Try again; when it happens again, tell your operator the request_id.",
)
RESULT_DAMAGED: Final = _type(
    "result-damaged",
    500,
    "The stored file is damaged",
    "The stored bytes of the file do not match their digest, so they are not sent.",
    "Ask for a new export with a new Idempotency-Key, and tell your operator the request_id.",
)
BUSY: Final = _type(
    "busy",
    503,
    "The service is busy",
    "The database was not to be had within its time limit. Nothing was changed.",
    _SAME_KEY,
)
QUEUE_FULL: Final = _type(
    "queue-full",
    503,
    "As many exports wait as can be finished",
    "New exports are not accepted until some of those that wait are done. No export was made; the key is still free.",
    _SAME_KEY,
)
QUEUE_TOO_OLD: Final = _type(
    "queue-too-old",
    503,
    "Exports wait for too long",
    "The exports that wait are not done in good time, so that no new ones are accepted. No export was made; the key is "
    "still free.",
    _SAME_KEY,
)
STORAGE_BUDGET: Final = _type(
    "storage-budget-reached",
    503,
    "There is no room for more files",
    "The database, or the volume on which it lies, is as full as it may become. No export was made; the key is still "
    "free. Everything else goes on.",
    f"{_SAME_KEY} Files that you no longer need make room when you delete them.",
)
STORAGE_FULL: Final = _type(
    "storage-full",
    503,
    "The storage is full",
    "There is no room for what the request would store. Nothing was changed.",
    _SAME_KEY,
)
UNAVAILABLE: Final = _type(
    "store-unavailable",
    503,
    "The database is not available",
    "The database could not be read or written. Nothing was changed.",
    _SAME_KEY,
)
OUTCOME_UNKNOWN: Final = _type(
    "outcome-unknown",
    503,
    "The outcome is unknown",
    "The database reported an error while it committed: the change may or may not have happened.",
    "Send the same request again with the same Idempotency-Key: its answer tells. Without a key, read first.",
)
NOT_READY: Final = _type(
    "not-ready",
    503,
    "The service is not ready",
    "A dependency that requests need did not answer in time; `checks` shows each.",
    "Send traffic elsewhere, and ask again.",
)

# How an export ends without a file: the `error` of its body, and a page for each code.
EXPORT_ERRORS: Final[dict[ErrorCode, ProblemType]] = {
    code: _type(f"export-{code.value.replace('_', '-')}", EXPORT_WITHOUT_RESULT.status, *words)
    for code, words in {
        ErrorCode.ATTEMPTS_EXHAUSTED: (
            "Every attempt was used up",
            "Each attempt to make the file was lost or failed, until no more were allowed.",
            "Ask for a new export; when it happens again, tell your operator the export's id.",
        ),
        ErrorCode.INVALID_PARAMETERS: (
            "The stored request cannot be read",
            "The export was accepted by another version of the service, and this one cannot read its parameters.",
            "Ask for a new export.",
        ),
        ErrorCode.OWNER_DISABLED: (
            "The owner was disabled",
            "The owner was disabled after the export was accepted.",
            "Speak to your operator.",
        ),
        ErrorCode.OWNERSHIP_VIOLATION: (
            "The export was stopped for safety",
            "While the file was made, a task of another owner was met; nothing of the file was kept.",
            "Tell your operator the export's id.",
        ),
        ErrorCode.RESULT_TOO_LARGE: (
            "The file would be too large",
            "The file would have more rows or bytes than one export may have.",
            "Narrow the filter, or export fewer columns.",
        ),
        ErrorCode.INTERNAL_ERROR: (
            "Something went wrong on our side",
            "Every attempt to make the file met a defect of the service.",
            "Ask for a new export; when it happens again, tell your operator the export's id.",
        ),
        ErrorCode.DEADLINE_EXCEEDED: (
            "The deadline passed",
            "The file could not be made before the export's deadline.",
            "Ask for a new export with a later deadline, or at a quieter time.",
        ),
        ErrorCode.CANCELLED: (
            "The export was cancelled",
            "The export was cancelled before its file was made.",
            "Ask for a new export when you want the file after all.",
        ),
    }.items()
}
