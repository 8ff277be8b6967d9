"""What options take: kinds of value that refuse what no command could mean, in words for people."""

import math
from typing import Final

import rich_click as click

# Longer than anyone waits, and short enough to be counted with.
_LONGEST_SECONDS: Final = 366 * 24 * 3600


class Seconds(click.ParamType[float]):
    """A duration: a number of seconds from 0 up to a leap year."""

    name = "seconds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; "nan" and "inf" are none that could be waited for."""
        try:
            seconds = float(str(value))
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds <= _LONGEST_SECONDS:
            self.fail(f"{str(value)!r} is not a number of seconds from 0 to {_LONGEST_SECONDS:,}.", param, ctx)
        return seconds


class Text(click.ParamType[str]):
    """A text that is not empty: an empty one is what a shell makes of a variable that is not set."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text as it is."""
        if value == "":
            self.fail("it must not be empty.", param, ctx)
        return str(value)


class WholeNumber(click.IntRange):
    """A whole number between two bounds, by a name that people use."""

    name = "whole number"
