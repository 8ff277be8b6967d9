"""The socket that the API listens on, whoever opens it: the supervisor for its child, or the API's own process."""

import socket
from typing import Final

from entrypoints.settings import PREFIX, Settings, SettingsError

# Connections that arrive while the API restarts or is busy wait here; the system may cap it (net.core.somaxconn).
_BACKLOG: Final = 2048


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens on the configured address.

    Raises:
        SettingsError: the address is in use, not allowed, or not one of this host.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"cannot listen on {PREFIX}HOST={settings.host}: {error.strerror}") from error
    except UnicodeError as error:
        # What cannot be spelt as a name of the DNS is not even asked for.
        raise SettingsError(f"cannot listen on {PREFIX}HOST={settings.host}: this is no name of a host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror}. "
            f"Stop what uses it, or set {PREFIX}PORT to another port (0 takes a free one)."
        ) from error
    return listener


def reachable(host: str) -> str:
    """Return a host that a client can connect to: "every address" is not one."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared with, not bound to


def authority(host: str, port: int) -> str:
    """Return host and port as they stand in a URL, and in a Host header (RFC 3986, 3.2)."""
    host = reachable(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
