"""Files appear whole or not at all."""

import errno
import stat
from pathlib import Path

import pytest

from entrypoints.client.saving import whole_file


def write_half(target: Path, failure: type[BaseException]) -> None:
    """Write the beginning of a file, then fail."""
    with whole_file(target) as file:
        file.write(b"half")
        raise failure


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [None, b"earlier"])
def test_after_a_failure_everything_is_as_it_was(
    tmp_path: Path, failure: type[BaseException], before: bytes | None
) -> None:
    """Also after a Ctrl-C, the earlier file is still there and nothing lies beside it."""
    target = tmp_path / "tasks.csv"
    if before is not None:
        target.write_bytes(before)
    with pytest.raises(failure):
        write_half(target, failure)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([] if before is None else [before])


def test_the_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    """It takes its name when the block ends."""
    target = tmp_path / "tasks.csv"
    with whole_file(target) as file:
        file.write(b"whole")
        assert not target.exists()
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("tasks.csv", b"whole")]


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    """Replacing a file does not open it to others, nor close it to them."""
    target = tmp_path / "tasks.csv"
    target.touch()
    target.chmod(0o640)
    with whole_file(target) as file:
        file.write(b"whole")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_of_new_files(tmp_path: Path) -> None:
    """As if any other program had made it."""
    (tmp_path / "other").touch()
    with whole_file(tmp_path / "tasks.csv"):
        pass
    assert (tmp_path / "tasks.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("name", ["", "missing/tasks.csv"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    """The error names the file that was asked for."""
    target = tmp_path / name
    with pytest.raises(OSError, match=r"(directory|folder)") as failure, whole_file(target):
        pass
    assert failure.value.filename == str(target)


@pytest.mark.parametrize(("number", "is_named"), [(errno.ENOSPC, True), (errno.ENOENT, False)])
def test_a_full_disk_is_told_of_the_file_that_was_asked_for(tmp_path: Path, number: int, *, is_named: bool) -> None:
    """What else fails while the file is written does not become a failure of the file."""
    target = tmp_path / "tasks.csv"
    with pytest.raises(OSError, match="what happened") as failure, whole_file(target):
        raise OSError(number, "what happened")
    assert failure.value.filename == (str(target) if is_named else None)
    assert [*tmp_path.iterdir()] == []
