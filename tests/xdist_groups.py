"""Which tests go to one worker of a parallel run, because of what they share.

A real API server takes ten seconds of a core to start and a twentieth of one while it idles. So not every
worker has one: tests that need it go to those few that do.
"""

from __future__ import annotations

import pytest

SERVERS = frozenset({"real_server", "apiextensions_server"})
"""Fixtures."""
NAMES = SERVERS | {"kube-apiserver", "apiextensions"}
"""What tests that run on several servers have as a parameter."""
OTHER_RELEASE = "kube-apiserver-"
"""How the parameter begins of tests that run on one more release, see `--release all`."""
APART = frozenset({"cloud", "manifests", "tenancy", "webhook"})
"""Folders of tests whose real server is another than that of the rest: about half of the time."""


def group_of(item: pytest.Item) -> str:
    """The group of a test; empty for one that may run anywhere."""
    for value in _servers(item):
        if value.startswith(OTHER_RELEASE):
            return f"real server {value}"
    if needs_real_server(item):
        folder = item.path.relative_to(item.config.rootpath).parts[1]
        return "real server of these" if folder in APART else "real server of the rest"
    return getattr(item, "_nodeid", "").rpartition("@")[
        2
    ]  # what xdist made of the test's own marks


def needs_real_server(item: pytest.Item) -> bool:
    """Whether it asks for one of those that the tests of a worker share."""
    if not isinstance(item, pytest.Function):
        return False
    if SERVERS.intersection(item.fixturenames):
        return True
    if item.get_closest_marker("xdist_group") and "shared_server" not in _params(item):
        return False
    return bool(_servers(item))


def _servers(item: pytest.Item) -> list[str]:
    """Return the servers among the parameters of a test."""
    given = _params(item).values()
    each = [part for value in given for part in (value if isinstance(value, tuple) else (value,))]
    found = [value for value in each if isinstance(value, str)]
    return [value for value in found if value in NAMES or value.startswith(OTHER_RELEASE)]


def _params(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if hasattr(item, "callspec") else {}
