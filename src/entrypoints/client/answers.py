"""What the API answers, as far as a client needs it; members that are not named here are passed over."""

from msgspec import Struct


class FaultyPart(Struct, frozen=True):
    """One thing that was wrong with a request: where, as far as that can be named, and why."""

    detail: str = ""
    pointer: str | None = None
    parameter: str | None = None
    header: str | None = None
    line: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        """Return it as a person reads it."""
        places = [
            f"line {self.line}" if self.line is not None else None,
            self.column,
            self.pointer,
            self.parameter,
            self.header,
        ]
        where = ", ".join(place for place in places if place)
        return f"{where}: {self.detail}" if where else self.detail


class Problem(Struct, frozen=True):
    """A refusal, by RFC 9457."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    request_id: str | None = None
    errors: list[FaultyPart] = []
    error_count: int | None = None


class Progress(Struct, frozen=True):
    """How far the running attempt has come."""

    rows_written: int
    rows_total: int


class ResultFile(Struct, frozen=True):
    """The file of a succeeded export. Size and digest are those of the plain file, whatever coding it is sent in."""

    url: str
    bytes: int
    rows: int
    sha256: str
    formula_escaped_cells: int
    snapshot_at: str
    expires_at: str


class Gone(Struct, frozen=True):
    """Why, and since when, a result can no longer be read."""

    reason: str
    at: str


class EndedBy(Struct, frozen=True):
    """Why an export ended without a file."""

    code: str
    title: str = ""
    detail: str = ""


class Export(Struct, frozen=True, kw_only=True):
    """An export as its owner sees it."""

    id: str
    status: str
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    attempt_count: int
    progress: Progress | None = None
    result: ResultFile | None = None
    result_gone: Gone | None = None
    error: EndedBy | None = None

    @property
    def has_ended(self) -> bool:
        """Tell whether nothing more will happen by itself."""
        return self.status not in {"queued", "running"}


class RefusedRow(Struct, frozen=True):
    """A row of an imported file that was not taken: the line on which it begins, its column, and why."""

    line: int
    reason: str
    column: str | None = None

    def __str__(self) -> str:
        """Return it as a person reads it."""
        return f"line {self.line}{f', {self.column}' if self.column else ''}: {self.reason}"


class Imported(Struct, frozen=True):
    """What an import came to; of many refused rows only the first are shown."""

    imported: int
    refused: int
    refused_rows: list[RefusedRow]
