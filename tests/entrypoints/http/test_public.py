"""What anyone may ask."""

import pytest

from domain.errors import Refusal
from domain.export import ErrorCode
from entrypoints.http import problems
from entrypoints.http.problem_types import EXPORT_ERRORS, INTERNAL_ERROR, PROBLEMS
from tests.entrypoints.http.api import Api


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_needs_no_token(method: str, api: Api) -> None:
    """Both answer 200 to anyone; HEAD without a body."""
    for path, checks in {"/health/live": [], "/health/ready": [{"name": "database", "is_ok": True}]}.items():
        answer = await api.client.request(method, path)
        assert answer.status_code == 200
        assert method == "HEAD" or answer.json() == {"status": "ok", "checks": checks}


async def test_every_type_of_problem_has_a_page(api: Api) -> None:
    """The page says what happened and what to do; there is none for a type that does not exist."""
    for slug, kind in PROBLEMS.items():
        page = await api.client.get(f"/problems/{slug}")
        assert page.status_code == 200
        assert page.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert kind.meaning in page.text
        assert kind.remedy in page.text
    assert (await api.client.get("/problems/nothing")).status_code == 404


def every_refusal(kind: type[Refusal] = Refusal) -> list[type[Refusal]]:
    """Return a class of refusals with all of its descendants."""
    return [kind, *(found for child in kind.__subclasses__() for found in every_refusal(child))]


@pytest.mark.parametrize("kind", every_refusal()[1:], ids=lambda kind: kind.__name__)
def test_every_refusal_of_the_domain_has_a_problem(kind: type[Refusal]) -> None:
    """A refusal that is added to the domain must be given a row, or one of an ancestor other than `Refusal`."""
    assert any(ancestor in problems.REFUSALS for ancestor in kind.__mro__)


def test_no_row_stands_for_all_refusals() -> None:
    """A row for the root of the tree would hide one that was forgotten."""
    assert not {Refusal, Exception, BaseException} & set(problems.REFUSALS)


def test_every_way_in_which_an_export_ends_has_a_page() -> None:
    """Each error code is a type of problem of its own."""
    assert set(EXPORT_ERRORS) == set(ErrorCode)
    assert len({kind.slug for kind in EXPORT_ERRORS.values()}) == len(ErrorCode)


def test_an_exception_that_no_one_foresaw_keeps_its_words() -> None:
    """The answer to it is the same whatever it says."""
    place = problems.Place(request_id="x", instance="/")
    answers = {problems.problem_answer(RuntimeError(text), place).body for text in ("a", "b")}
    assert len(answers) == 1
    assert problems.problem_answer(RuntimeError("a"), place).status == INTERNAL_ERROR.status
