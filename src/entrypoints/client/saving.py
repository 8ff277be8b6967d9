"""Files that appear whole or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkstemp
from typing import BinaryIO, Final

# What writing fails with, and reading never.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of `target` in one step when the block ends without an exception.

    What was written is on the disk before the name is. After an exception, a Ctrl-C among them, `target` is as it was
    and nothing is left beside it. The file is made with the permissions of any new file.

    Raises:
        OSError: the folder cannot be written to, the disk is full, or `target` is a folder.
    """
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    try:
        descriptor, name = mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        # Named by the file that was asked for, not by the one beside it that no one knows.
        raise OSError(error.errno, error.strerror, str(target)) from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), _permissions_of(target))
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    _sync_folder(target.parent)


def _permissions_of(target: Path) -> int:
    with suppress(FileNotFoundError):
        return target.stat().st_mode & 0o777
    # Reading the mask means setting it; mkstemp made the file for its owner alone, which is not what others are given.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
