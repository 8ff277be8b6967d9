"""A few tasks to look at. Some hold what exports must get right: formulas, quotes, line breaks, many scripts."""

from datetime import timedelta
from typing import Final

from domain.instants import Instant, later
from domain.task import NewTask, TaskStatus

_DONE: Final = TaskStatus.DONE
_IN_PROGRESS: Final = TaskStatus.IN_PROGRESS
_OPEN: Final = TaskStatus.OPEN

# Title, description, status, priority, and in how many days it is due.
_TASKS: Final = (
    ("Renew the certificate of the shop", "It ends next week.\nThe old key stays.", _OPEN, 1, 3),
    ("Order 40 fence posts", 'Oak, 12 by 12 cm, "dry", from the usual yard', _IN_PROGRESS, 2, 10),
    (
        "=SUM(A1:A9) shows 0 in the monthly sheet",
        "A title that a spreadsheet would run, were it not protected.",
        _OPEN,
        2,
        14,
    ),
    ("-5 °C: drain the garden pipe", "", _DONE, 3, None),
    (
        "'Apostrophes' at the start must survive",
        'So must "quotes", commas, and\r\nline breaks of each kind.',
        _OPEN,
        3,
        None,
    ),
    ("Réserver la salle für Mittwoch · 会議室の予約", "Ünïcödé, かな, العربية, 🙂", _IN_PROGRESS, 3, 5),
    ("Write to the neighbours about the hedge", "  Leading and trailing blanks are kept.  ", _OPEN, 4, 30),
    ("Count the posts again", "A fence of ten panels has eleven posts.", _DONE, 4, None),
)


def sample_tasks(now: Instant) -> list[NewTask]:
    """Return the tasks as of now."""
    return [
        NewTask(title, description, status, priority, due_at=None if days is None else later(now, timedelta(days=days)))
        for title, description, status, priority, days in _TASKS
    ]
