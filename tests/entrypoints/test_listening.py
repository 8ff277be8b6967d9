"""The listening socket: what cannot be listened on, and how an address is spelled for those who connect."""

import re
import socket

import pytest

from entrypoints.listening import authority, listen
from entrypoints.settings import Settings, SettingsError


def test_a_port_in_use_is_told_in_one_line() -> None:
    """Who starts it twice learns which port is taken, and what to set."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SettingsError, match=r"port \d+: Address already in use.*FENCEPOST_PORT") as refusal,
    ):
        listen(Settings(port=taken.getsockname()[1]))
    assert "\n" not in str(refusal.value)


def test_an_address_of_another_host_is_told_in_one_line() -> None:
    """A host name that does not exist, or an address that is not this machine's, is refused by name."""
    for name in ("no-such-host.invalid", "no..host", "n" * 64):
        with pytest.raises(SettingsError, match=f"FENCEPOST_HOST={re.escape(name)}: "):
            listen(Settings(host=name))
    with pytest.raises(SettingsError, match=r"198\.51\.100\.1 port"):
        listen(Settings(host="198.51.100.1"))


@pytest.mark.parametrize(
    ("host", "spelled"),
    [
        ("127.0.0.1", "127.0.0.1:80"),
        ("example.org", "example.org:80"),
        ("::1", "[::1]:80"),
        ("0.0.0.0", "127.0.0.1:80"),  # noqa: S104 - spelled, not bound to
        ("::", "[::1]:80"),
    ],
)
def test_an_address_is_spelled_so_that_it_can_be_connected_to(host: str, spelled: str) -> None:
    """A wildcard becomes the loopback address, and one of IPv6 stands in brackets."""
    assert authority(host, 80) == spelled
