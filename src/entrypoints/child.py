"""Runs one command of the program in a process that does not outlive its supervisor.

The supervisor holds the other end of an inherited pipe. However it dies, the system closes that end, and the process
here is stopped gently, then at once when it does not end by itself in time. (Linux alone could send a signal instead.)
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

from entrypoints.cli.main import main as command_line


def main(arguments: Sequence[str]) -> None:
    """Run `DESCRIPTOR SECONDS COMMAND…`: the command, until the descriptor's other end closes, and SECONDS longer."""
    descriptor, grace_seconds, *command = arguments
    threading.Thread(
        target=_end_with_supervisor, args=(int(descriptor), float(grace_seconds)), name="supervisor-watch", daemon=True
    ).start()
    sys.argv = ["fencepost", *command]
    command_line()


def _end_with_supervisor(descriptor: int, grace_seconds: float) -> None:
    os.read(descriptor, 1)  # Nothing is ever written: this returns when no process holds the other end any more.
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(grace_seconds)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
