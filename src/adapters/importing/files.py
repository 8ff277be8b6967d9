"""Tasks out of an uploaded file, whichever kind it is of."""

from collections.abc import Iterator
from typing import BinaryIO

from adapters.importing.csv_file import read_csv
from adapters.importing.json_lines import read_json_lines
from domain.parameters import FormulaProtection
from domain.ports import ImportFormat, ImportRow, RefusedRow


class FileReader:
    """`ImportReader` of CSV and JSON Lines. The file is read forward once, and left open."""

    def read(
        self, file: BinaryIO, kind: ImportFormat, *, formula_protection: FormulaProtection
    ) -> Iterator[ImportRow | RefusedRow]:
        """Yield every record of the file in order, sound or refused.

        Raises:
            InvalidInput: the file as a whole cannot be read; the message names the line.
        """
        read = {ImportFormat.CSV: read_csv, ImportFormat.JSON_LINES: read_json_lines}[kind]
        return read(file, is_protected=formula_protection is FormulaProtection.APOSTROPHE)
