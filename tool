#!/bin/sh
# Runs one command of this project inside its own environment (.venv), which is set up first where that is needed.
#
#   ./tool runtime COMMAND [ARGUMENT…]   with what it takes to run the service
#   ./tool dev COMMAND [ARGUMENT…]       with the tests and the gates as well
#   ./tool dev                           sets up, and does no more
#
# Needs Python 3.11 or newer and nothing else. PYTHON=… chooses the interpreter; uv is used when it is on PATH.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

works() { "$1" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
bootstrap() { python=$1 && shift && exec "$python" -I -S "$here/scripts/bootstrap.py" "$@"; }

if [ -n "${PYTHON-}" ]; then
    if works "$PYTHON"; then bootstrap "$PYTHON" "$@"; fi
    echo "fencepost: PYTHON=$PYTHON is not a Python 3.11 or newer; name another one, or leave PYTHON unset." >&2
    exit 1
fi

# The environment's own interpreter first: to look through every Python of a machine takes longer than all the rest.
# Then newest first; a name may be a version manager's shim for an interpreter that is not selected, so each is tried.
for candidate in "$here/.venv/bin/python" python3.14 python3.13 python3.12 python3.11 python3 python; do
    if works "$candidate"; then bootstrap "$candidate" "$@"; fi
done

if command -v python3 >/dev/null 2>&1; then
    echo "fencepost: Python 3.11 or newer is needed; python3 is $(python3 --version 2>&1 | head -n 1)." >&2
    echo "  Install a newer one beside it, or say where one is: make run PYTHON=/path/to/python3.12" >&2
else
    echo "fencepost: Python 3.11 or newer is needed, and there is no python3 on PATH." >&2
    echo "  Debian, Ubuntu: apt-get install python3 python3-venv" >&2
fi
exit 1
