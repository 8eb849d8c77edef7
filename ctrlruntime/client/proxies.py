"""Which proxy the environment names for a server, by the rules of kubectl and of Go. Pure."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from ctrlruntime.outbound_addresses import is_loopback


def proxy_of_environment(server: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the variable that names a proxy for the URL ``server``, and the proxy's URL; None: it is reached directly.

    ``HTTPS_PROXY`` and ``HTTP_PROXY`` count by the scheme of the server, ``NO_PROXY`` lists hosts, domains, addresses,
    networks and ``*``, each with a port if wanted; the names in lower case count too. This machine has no proxy.
    """
    parts = urlsplit(server)
    host = (parts.hostname or "").rstrip(".")
    if not host or host == "localhost" or is_loopback(host):
        return None
    variable, proxy = _variable(f"{parts.scheme}_proxy", environment)
    if not proxy:
        return None
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    _, excepted = _variable("no_proxy", environment)
    if any(_covers(each.strip().lower(), host, port) for each in excepted.split(",")):
        return None
    return variable, proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    found = next((each for each in (name.upper(), name) if environment.get(each)), name.upper())
    return found, environment.get(found, "").strip()


def _covers(pattern: str, host: str, port: str) -> bool:
    """Whether an item of the list is about this host."""
    if pattern == "*":
        return True
    address, network = _address(host), _network(pattern)
    if network is not None:
        return address is not None and address in network
    name, _, wanted = pattern.rpartition(":") if pattern.count(":") == 1 else (pattern, "", "")
    name = name.removeprefix("*")
    if not name or (wanted and wanted != port):
        return False
    if address is not None:
        return address == _address(name)
    # "example.com" covers its subdomains too, ".example.com" only these
    return (
        host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")
    )


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
