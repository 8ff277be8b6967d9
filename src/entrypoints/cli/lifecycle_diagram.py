"""Draws the protocol for people, from the table that the program runs: a diagram and two tables in Markdown."""

from collections.abc import Callable, Iterable, Iterator
from inspect import getdoc
from pathlib import Path
from typing import Any, Final

from domain.errors import InputError, InvalidInput
from domain.events import Enqueue
from domain.export import JobStatus
from domain.lifecycle import PROTOCOL, create

BEGIN: Final = "<!-- lifecycle: begin; written by `fencepost lifecycle`, not by hand -->"
END: Final = "<!-- lifecycle: end -->"


def render_lifecycle() -> str:
    """Return Markdown: a Mermaid state diagram, the rules in the order in which they are tried, their conditions."""
    return "\n\n".join(["\n".join(part) for part in (_diagram(), _rules(), _conditions())]) + "\n"


def update_document(path: Path, *, check: bool) -> bool:
    """Tell whether the block between the two marker lines of the document is what `render_lifecycle` returns.

    With `check` the file is left alone. Without it, a block that differs is replaced, and nothing else is.

    Raises:
        InvalidInput: the file cannot be read or written, or does not hold the two marker lines once, in order.
    """
    try:
        text = path.read_text(encoding="utf-8")
        start, stop = _block(path, text)
        is_current = text[start:stop] == _framed()
        if not is_current and not check:
            path.write_text(text[:start] + _framed() + text[stop:], encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(InputError(str(path), f"cannot be read and written as UTF-8 text: {reason}")) from error
    return is_current


def _block(path: Path, text: str) -> tuple[int, int]:
    start, stop = text.find(f"{BEGIN}\n") + len(BEGIN) + 1, text.find(f"{END}\n")
    if text.count(f"{BEGIN}\n") != 1 or text.count(f"{END}\n") != 1 or start > stop:
        raise InvalidInput(InputError(str(path), f"must hold these two lines once, in this order: {BEGIN} and {END}"))
    return start, stop


def _framed() -> str:
    return f"\n{render_lifecycle()}\n"


def _diagram() -> Iterator[str]:
    yield from ("```mermaid", "stateDiagram-v2", f"    [*] --> {JobStatus.QUEUED.value}: {Enqueue.name}")
    # Several rules can share an arrow; what tells them apart stands in the table.
    arrows = dict.fromkeys((rule.source.value, rule.target.value, rule.event.name) for rule in PROTOCOL)
    yield from (f"    {source} --> {target}: {event}" for source, target, event in arrows)
    yield from (f"    {status.value} --> [*]" for status in JobStatus if status.is_terminal)
    yield "```"


def _rules() -> Iterator[str]:
    yield from _table_head("event", "from", "to", "only if", "effect")
    yield _row(Enqueue.name, "[*]", JobStatus.QUEUED.value, "always", _summary(create))
    for rule in PROTOCOL:
        conditions = ", ".join(f"`{condition.__name__}`" for condition in rule.when) or "always"
        yield _row(rule.event.name, rule.source.value, rule.target.value, conditions, _summary(rule.then))


def _conditions() -> Iterator[str]:
    yield from _table_head("condition", "holds when")
    for condition in dict.fromkeys(condition for rule in PROTOCOL for condition in rule.when):
        yield _row(f"`{condition.__name__}`", _summary(condition))


def _summary(function: Callable[..., Any]) -> str:
    return (getdoc(function) or "").partition("\n")[0]


def _table_head(*names: str) -> Iterable[str]:
    return (_row(*names), _row(*("---" for _ in names)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
