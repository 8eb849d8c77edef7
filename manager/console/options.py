"""Options of the console, each with its default and its reason."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlruntime.clock import monotonic

if TYPE_CHECKING:
    from internal.cloud.cloud_run_tails import CloudRunPlace

Network = IPv4Network | IPv6Network


class ConsoleOptionsError(ValueError):
    """Options that would serve tokens in clear. The message has the flags that help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """Where the console is served, and how users are known."""

    bind_address: str = "0"
    """Address of the pages; "0" is off."""
    secure: bool = False
    """Serve https."""
    cert_path: Path | None = None
    """Folder of the certificate, followed when it is replaced; without one it is self-signed."""
    cert_name: str = "tls.crt"
    cert_key: str = "tls.key"
    trusted_proxies: tuple[Network, ...] = ()
    """Networks of proxies whose headers name the user. From other addresses these headers are ignored."""
    user_header: str = "X-Remote-User"
    """Header in which a trusted proxy names the user."""
    group_header: str = "X-Remote-Group"
    """Header in which it names the user's groups: repeated, or separated by commas."""
    most_streams: int = 200
    """Pages that may be followed live at once, of all users."""
    runs_folder: Path | None = None
    """Folder of the manager's local runs, whose logs are shown; None if it has none."""
    cloud_run: CloudRunPlace | None = None
    """Where the manager has its runs of Cloud Run, whose logs are shown; None if it has none."""

    @property
    def enabled(self) -> bool:
        """Whether there is a console."""
        return self.bind_address not in {"", "0"}

    def check(self) -> None:
        """Raise ConsoleOptionsError for options that do not go together."""
        if self.cert_path is not None and not self.secure:
            raise ConsoleOptionsError("--console-cert-path needs --console-secure")
        if not self.enabled or self.secure or self.trusted_proxies:
            return
        if not is_loopback(self.bind_address.rpartition(":")[0].strip("[]")):
            raise ConsoleOptionsError(
                f"the console at {self.bind_address} would take tokens in clear: add --console-secure, or "
                "--console-trusted-proxy for a proxy in front of it, or bind it to 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine only. Names other than localhost are not."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def cloud_run_place(project: str, location: str) -> CloudRunPlace:
    """Return where runs of Cloud Run are, whose logs are read as the account of this machine."""
    from internal.cloud.cloud_run_tails import CloudRunPlace
    from internal.cloud.runs.cloudrun import metadata_token

    return CloudRunPlace(project=project, location=location, token=metadata_token(monotonic))
