"""How one cell is written in CSV: quoting by RFC 4180, and protection against spreadsheet formulas.

Protection follows OWASP's advice on CSV injection (ASVS 5.0, 1.2.10): a *text* cell that a spreadsheet could take for
a formula gets one leading apostrophe. Every cell that begins with an apostrophe is treated the same way, which makes
the change reversible without a list: strip exactly one. Numbers, instants and keywords cannot hold a formula and are
never touched.
"""

from re import compile as pattern
from typing import Final

_WHITE: Final = " \t\r\n\u00a0\u3000\u200b\ufeff"
# Full-width forms are folded to the plain signs by spreadsheets that read East Asian text.
_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_RISKY: Final = pattern(f"[\t\r\n']|[{_WHITE}]*[{_SIGNS}]")
_ESCAPE: Final = "'"


def is_risky(text: str) -> bool:
    """Tell whether a text cell needs protection: it may be read as a formula, or it looks already protected."""
    return _RISKY.match(text) is not None


def protect(text: str) -> str:
    """Return the text with one leading apostrophe when it is risky, unchanged otherwise."""
    return _ESCAPE + text if _RISKY.match(text) else text


def unprotect(text: str) -> str:
    """Return what `protect` was given."""
    return text.removeprefix(_ESCAPE)


def quoted(text: str) -> str:
    """Return the text in double quotes, its own doubled."""
    return '"' + text.replace('"', '""') + '"'


def characters_to_quote(delimiter: str) -> str:
    """Return the characters that put a cell in quotes: the delimiter, the quote, and either half of a line ending.

    A lone CR is among them whatever ends a record: readers take it for a line ending.
    """
    return delimiter + '"\r\n'
