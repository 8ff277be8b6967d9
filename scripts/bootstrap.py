"""Sets up `.venv` where it is missing, stale or half done, then becomes the command that was asked for.

Called by `./tool`, with any Python from 3.11 on and nothing but its standard library. An environment counts as ready
only if its stamp says so; the stamp is written last and removed first, so an interrupted set-up is always noticed and
done again. Two set-ups at once take turns.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Final, NoReturn

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv"
STAMP: Final = VENV / "fencepost-stamp.json"
LOCK: Final = ROOT / ".venv.lock"

# Each profile holds the one before it, so an environment made for the tests also runs the service.
PROFILES: Final = ("runtime", "dev")


def main(arguments: list[str]) -> NoReturn:
    """Sets up for `arguments[0]` (a profile), then runs the command in the rest, if there is one.

    Exits 2 on wrong usage, 1 when the set-up fails, 130 when it is interrupted, else with the command's own status.
    """
    if not arguments or arguments[0] not in PROFILES:
        stop(f"usage: ./tool {'|'.join(PROFILES)} [COMMAND ARGUMENT...]", status=2)
    profile, *command = arguments
    if not is_ready(profile):
        try:
            with LOCK.open("w") as lock:
                wait_for_turn(lock.fileno())
                if not is_ready(profile):
                    set_up(profile)
        except KeyboardInterrupt:
            stop("set-up interrupted; the next start does it again from the beginning.", status=130)
    if command:
        become(command)
    sys.exit(0)


def is_ready(profile: str) -> bool:
    """Whether `.venv` was completed, in this place, from the files as they are now, for `profile` or a larger one."""
    stamped = read_stamp()
    made_for = stamped.get("profile")
    if made_for not in PROFILES or PROFILES.index(made_for) < PROFILES.index(profile):
        return False
    return stamped.get("inputs") == fingerprint(made_for) and stamped.get("place") == place()


def read_stamp() -> dict[str, str]:
    """Returns what the last completed set-up wrote, or nothing."""
    try:
        stamped = json.loads(STAMP.read_bytes())
    except (OSError, ValueError):
        return {}
    return stamped if isinstance(stamped, dict) else {}


def fingerprint(profile: str) -> str:
    """Returns the digest of everything that decides what a complete environment holds."""
    digest = hashlib.sha256()
    for name in (f"requirements/{profile}.txt", "scripts/bootstrap.py"):
        digest.update(hashlib.sha256((ROOT / name).read_bytes()).digest())
    # Of pyproject.toml only what is built and installed: a change to a linter's settings needs no new environment.
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    built = [stated["project"], stated["build-system"], stated["tool"]["uv"]]
    digest.update(json.dumps(built, sort_keys=True).encode())
    return digest.hexdigest()


def place() -> str:
    """Returns what an environment is bound to: the path in its scripts, and the interpreter's binary interface."""
    return f"{VENV} {sys.implementation.cache_tag}"


def wait_for_turn(descriptor: int) -> None:
    """Returns when no other set-up is running. The kernel drops the lock of a set-up that dies."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another set-up is running here; waiting for it.")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def set_up(profile: str) -> None:
    """Leaves a complete, stamped environment, or exits with what to do about it."""
    import shutil
    import time

    began = time.monotonic()
    stamped = read_stamp()
    uv = shutil.which("uv")
    if stamped.get("place") == place():
        made_for = stamped.get("profile", profile)
        profile = max(profile, made_for if made_for in PROFILES else profile, key=PROFILES.index)
        say(f"bringing .venv up to date ({profile}).")
        STAMP.unlink()
    else:
        version = ".".join(map(str, sys.version_info[:3]))
        duration = "a few seconds" if uv else "about half a minute"
        say(f"setting up .venv with Python {version} ({profile}); once, {duration}.")
        shutil.rmtree(VENV, ignore_errors=True)
        # `sys._base_executable`, since this may run on the interpreter of the very environment that was just removed.
        base = getattr(sys, "_base_executable", None) or sys.executable
        if not succeeds(base, "-I", "-m", "venv", "--without-pip", str(VENV)):
            stop(f"could not make a virtual environment with {base}.\n{how_to_get_venv()}")

    requirements = str(ROOT / "requirements" / f"{profile}.txt")
    if not ((uv and install_with_uv(uv, requirements)) or install_with_pip(requirements)):
        stop(
            "could not install what is needed; the lines above say why.\n"
            "  Packages come from your package index: check the network, a proxy (HTTPS_PROXY), pip's configuration,\n"
            "  and start again. There is nothing to clean up."
        )

    written = STAMP.with_suffix(".new")
    written.write_text(json.dumps({"profile": profile, "inputs": fingerprint(profile), "place": place()}))
    written.replace(STAMP)
    say(f"ready after {time.monotonic() - began:.1f} s.")


def install_with_uv(uv: str, requirements: str) -> bool:
    """Makes the environment hold exactly the hashed requirements and this project, editable; says whether it does."""
    target = ("--quiet", "--python", str(VENV / "bin" / "python"))
    return succeeds(uv, "pip", "sync", *target, "--require-hashes", requirements) and succeeds(
        uv, "pip", "install", *target, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)
    )


def install_with_pip(requirements: str) -> bool:
    """Installs the hashed requirements and this project, editable; says whether it did.

    Unlike uv, pip leaves packages alone that an earlier version of the requirements brought.
    """
    python = str(VENV / "bin" / "python")
    if not any(VENV.glob("lib/python*/site-packages/pip/__init__.py")) and not succeeds(
        python, "-I", "-m", "ensurepip", "--default-pip", quiet=True
    ):
        stop(f"this Python cannot install packages: it has no ensurepip.\n{how_to_get_venv()}")
    # Twice quiet: only what makes it fail.
    pip = (python, "-I", "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input")
    return succeeds(*pip, "--require-hashes", "-r", requirements) and succeeds(
        *pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)
    )


def how_to_get_venv() -> str:
    """Returns the advice for a Python that was packaged without `venv` or `ensurepip`."""
    version = ".".join(map(str, sys.version_info[:2]))
    return (
        f"  Debian, Ubuntu: apt-get install python{version}-venv\n"
        "  Elsewhere: use a complete Python (make run PYTHON=/path/to/python3), or install uv."
    )


def succeeds(*command: str, quiet: bool = False) -> bool:
    """Runs a command to its end, its output shown unless `quiet`, and says whether it exited 0."""
    import subprocess

    output = subprocess.DEVNULL if quiet else sys.stderr
    # A user-wide `user = true` would make pip refuse to install into a virtual environment.
    environment = {**inside(), "PIP_USER": "0"}
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
    return done.returncode == 0


def inside() -> dict[str, str]:
    """Returns the variables of this process, as they are in an activated environment."""
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "VIRTUAL_ENV": str(VENV), "PATH": path}


def become(command: list[str]) -> NoReturn:
    """Replaces this process with a command of the environment, so that signals reach it and nothing stands between."""
    program = VENV / "bin" / command[0]
    if not program.exists():
        stop(f"{command[0]} is not a command of this environment; see {program.parent}.", status=2)
    os.execve(program, [str(program), *command[1:]], inside())  # noqa: S606 - a shell would only stand between


def say(message: str) -> None:
    """Prints a line for the person who waits; standard output belongs to the command."""
    print(f"fencepost: {message}", file=sys.stderr, flush=True)


def stop(message: str, *, status: int = 1) -> NoReturn:
    """Ends with a message and no traceback."""
    say(message)
    sys.exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
