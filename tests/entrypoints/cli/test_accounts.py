"""Users and tokens, as an operator sets them up on the command line."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from domain.account import Principal
from domain.ports import Bulkhead
from domain.use_cases.accounts import authenticate
from entrypoints.bootstrap import assemble
from entrypoints.cli.main import run
from entrypoints.settings import Settings


class Operator:
    """Someone at the command line of one database."""

    def __init__(self, database: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._database = database
        self._capsys = capsys

    def types(self, *arguments: str) -> str:
        """Run a command that succeeds; return what it printed on standard output."""
        assert run([*arguments, "--database", str(self._database)]) == 0
        return self._capsys.readouterr().out

    def fails(self, *arguments: str) -> str:
        """Run a command that is refused; return what it said."""
        assert run([*arguments, "--database", str(self._database)]) == 1
        output = self._capsys.readouterr()
        assert output.out == ""
        return output.err

    def speaks_for(self, token: str) -> Principal | None:
        """Return whom a token speaks for, as a request would be told."""

        async def ask() -> Principal | None:
            async with assemble(replace(Settings(), database=str(self._database))) as app:
                return await app.store.read(Bulkhead.OPERATIONS, authenticate, token)

        return asyncio.run(ask())


@pytest.fixture
def operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Operator:
    """Returns an operator with a fresh database and one user, ada."""
    operator = Operator(tmp_path / "fencepost.db", capsys)
    operator.types("migrate")
    operator.types("users", "add", "ada")
    return operator


def test_a_token_is_all_that_is_printed_and_speaks_for_its_user(operator: Operator) -> None:
    """A script can capture it; by default it may use tasks and exports, and never operate the service."""
    token = operator.types("tokens", "issue", "ada").removesuffix("\n")
    principal = operator.speaks_for(token)
    assert principal is not None
    assert (principal.name, sorted(principal.scopes)) == ("ada", ["exports", "tasks"])


def test_scopes_are_those_that_were_asked_for(operator: Operator) -> None:
    """--json tells token, id and scopes."""
    issued = json.loads(operator.types("tokens", "issue", "ada", "--scope", "ops", "--json"))
    principal = operator.speaks_for(issued["token"])
    assert principal is not None
    assert principal.token_id == issued["id"]
    assert [*principal.scopes] == issued["scopes"] == ["ops"]


def test_a_token_is_never_shown_again(operator: Operator) -> None:
    """Neither listing has it, nor anything that it could be made from."""
    token = operator.types("tokens", "issue", "ada").strip()
    shown = operator.types("tokens", "list", "ada") + operator.types("tokens", "list", "ada", "--json")
    assert token not in shown
    assert "in force" in shown


def test_a_revoked_token_speaks_for_no_one(operator: Operator) -> None:
    """It stays in the list, and a second revocation is refused."""
    issued = json.loads(operator.types("tokens", "issue", "ada", "--json"))
    operator.types("tokens", "revoke", issued["id"])
    assert operator.speaks_for(issued["token"]) is None
    assert json.loads(operator.types("tokens", "list", "ada", "--json"))[0]["revoked_at"] is not None
    assert "there is no token" in operator.fails("tokens", "revoke", issued["id"])


def test_a_disabled_user_is_refused_until_enabled(operator: Operator) -> None:
    """The tokens themselves stay as they are."""
    token = operator.types("tokens", "issue", "ada").strip()
    operator.types("users", "disable", "ada")
    assert operator.speaks_for(token) is None
    assert "disabled" in operator.types("users", "list")
    operator.types("users", "enable", "ada")
    assert operator.speaks_for(token) is not None
    (user,) = json.loads(operator.types("users", "list", "--json"))
    assert (user["name"], user["disabled_at"]) == ("ada", None)


def test_a_token_for_a_disabled_user_is_issued_with_a_warning(
    operator: Operator, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Whoever gets it would be refused, and the operator is told what changes that."""
    operator.types("users", "disable", "ada")
    capsys.readouterr()
    assert run(["tokens", "issue", "ada", "--database", str(tmp_path / "fencepost.db")]) == 0
    assert "ada is disabled, so the token is refused until: fencepost users enable ada" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "shown"), [("Ada L", "'Ada L'"), ("-x", "-- -x"), ("ada-2", "ada-2")])
def test_the_next_command_can_be_pasted(
    operator: Operator, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, shown: str
) -> None:
    """A name with blanks in it is quoted for the shell, and one that looks like an option is kept from being one."""
    operator.types("users", "list")
    assert run(["users", "add", "--database", str(tmp_path / "fencepost.db"), "--", name]) == 0
    assert capsys.readouterr().err == f"Added {name}. Next: fencepost tokens issue {shown}\n"


@pytest.mark.parametrize("name", ["", " ada", "a\nb", "x" * 201])
def test_a_name_that_cannot_be_read_is_refused(operator: Operator, name: str) -> None:
    """The refusal says what a name must be, and no one is added."""
    assert "printable" in operator.fails("users", "add", name)
    assert len(json.loads(operator.types("users", "list", "--json"))) == 1


@pytest.mark.parametrize(
    "arguments",
    [("users", "disable"), ("users", "enable"), ("tokens", "issue"), ("tokens", "list")],
    ids=" ".join,
)
def test_an_unknown_user_is_named(operator: Operator, arguments: tuple[str, str]) -> None:
    """One line says who is missing."""
    assert operator.fails(*arguments, "bob") == "fencepost: there is no user 'bob'\n"


def test_a_name_is_taken_once(operator: Operator) -> None:
    """The second user of a name is refused, and the first stays."""
    assert "there is a user 'ada' already" in operator.fails("users", "add", "ada")


def test_migrating_again_changes_nothing(operator: Operator) -> None:
    """It can stand in every start script."""
    operator.types("migrate")
    assert len(json.loads(operator.types("users", "list", "--json"))) == 1
