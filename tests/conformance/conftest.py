"""Every test runs on the embedded server and on the real ones; the server is its parameter.

Marks say where a test does not run:

- `custom`: it needs nothing but custom resources, and so runs on apiextensions-apiserver as well
  with `--backend apiextensions`, unless `kube_apiserver("why")` keeps it to kube-apiserver;
- `since("...")`: an older release differs, see `releases.CHANGES`;
- `embedded("why")`: it reaches into the embedded server, its clock or its options;
- `real("why")`: the embedded server does not do this.

With `--release all` every supported release in the asset cache is a server of its own.

CTRLRUNTIME_TEST_KUBE_APISERVER and CTRLRUNTIME_TEST_APIEXTENSIONS, each "URL TOKEN USER_TOKEN" with the
tokens of an administrator and of a user `alice` without rights, name servers that run already.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from ctrlruntime.envtest import User, administrator
from ctrlruntime.envtest.server import ServerOptions
from ctrlruntime.json import Json
from tests.backends import kube_apiserver
from tests.real_servers import APIEXTENSIONS, KUBE_APISERVER, other_releases
from tests.xdist_groups import OTHER_RELEASE

from .manifests import DEFINITIONS, GROUP, definition, shapes
from .servers import (
    EMBEDDED,
    TOKENS,
    RealServer,
    check_release,
    embedded,
    given,
)
from .wire import Api

Connect = Callable[[str], RealServer]


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "since(change): shows what a later release changed, see tests/conformance/releases.py",
        "embedded(why): reaches into the embedded server",
        "custom: needs nothing but custom resources",
        "kube_apiserver(why): of the real servers only kube-apiserver shows it",
        "real(why): what the embedded server does not do",
    ):
        config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" not in metafunc.fixturenames:
        return
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "embedded" in marks:
        names = [EMBEDDED]
    else:
        names = [EMBEDDED] * ("real" not in marks) + [KUBE_APISERVER]
        names += [OTHER_RELEASE + name for name in other_releases(metafunc.config)]
        if "custom" in marks and "kube_apiserver" not in marks:
            names += [APIEXTENSIONS] * _with_apiextensions(metafunc.config)
    metafunc.parametrize("backend", names, scope="session")


def _with_apiextensions(config: pytest.Config) -> bool:
    """Return whether apiextensions-apiserver was asked for."""
    return given(APIEXTENSIONS) is not None or config.getoption("--backend") == APIEXTENSIONS


@pytest.fixture
def options() -> ServerOptions:
    """Override in a test module to run the embedded server otherwise."""
    return ServerOptions(tokens=TOKENS, authorization="RBAC")


@pytest.fixture(scope="session")
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """One real server of each kind and release, found or started when the first test needs it."""
    known: dict[str, RealServer] = {}
    with ExitStack() as stack:

        def one(backend: str) -> RealServer:
            if backend not in known:
                known[backend] = given(backend) or _started(request, backend, stack)
            return known[backend]

        yield one


def _started(request: pytest.FixtureRequest, backend: str, stack: ExitStack) -> RealServer:
    if backend.startswith(OTHER_RELEASE):
        folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        release = backend.removeprefix(OTHER_RELEASE)
        shared = stack.enter_context(kube_apiserver(folders.mktemp(backend), version=release))
    else:
        name = "real_server" if backend == KUBE_APISERVER else "apiextensions_server"
        shared = request.getfixturevalue(name)
    admin, alice = administrator("admin"), User(name="alice")
    shared.backend.add_users([admin, alice])
    return RealServer(shared.backend.url, admin.token, alice.token)


@pytest.fixture
async def api(
    request: pytest.FixtureRequest, backend: str, options: ServerOptions, connect: Connect
) -> AsyncIterator[Api]:
    """The administrator's access to the server under test."""
    for mark in request.node.iter_markers("real"):
        if backend == EMBEDDED:
            pytest.skip(f"not in the embedded server: {mark.args[0]}")
    context = embedded(options) if backend == EMBEDDED else connect(backend).api()
    async with context as api:
        check_release(request, api)
        yield api


@pytest.fixture
def alice(api: Api) -> Api:
    """Access of a user who has no rights until the test binds some."""
    return api.as_user(api.user_token)


@pytest.fixture
async def widgets(api: Api, backend: str, connect: Connect) -> str:
    """The path of Widgets, which have the subresources status and scale."""
    return await _shared(api, backend, connect, definition())


@pytest.fixture
async def shaped(api: Api, backend: str, connect: Connect) -> str:
    """The path of Shapes, which have every kind of list and map and no subresource."""
    return await _shared(api, backend, connect, shapes(either=api.has("apply by schema")))


async def _shared(api: Api, backend: str, connect: Connect, crd: Json) -> str:
    """The path of a kind whose definition all tests share and none changes."""
    names = crd["spec"]["names"]
    known = set() if backend == EMBEDDED else connect(backend).definitions
    if names["kind"] not in known:
        known.add(names["kind"])
        await define(api, crd, keep=True)
    return f"/apis/{GROUP}/v1/namespaces/{api.namespace}/{names['plural']}"


async def define(api: Api, crd: Json, version: str = "v1", *, keep: bool = False) -> str:
    """Create a definition and wait until its objects can be written; their path.

    A real server learns of its own definitions with a delay.
    """
    status, answer, _ = await api.send("POST", DEFINITIONS, crd)
    assert status == 201 or (keep and status == 409), answer["message"]
    if keep:
        del api.made[-1:]
    spec = crd["spec"]
    plural = spec["names"]["plural"]
    path = f"/apis/{spec['group']}/{version}/namespaces/{api.namespace}/{plural}"
    if spec["scope"] == "Cluster":
        path = f"/apis/{spec['group']}/{version}/{plural}"
    await served(api, path)
    return path


async def served(api: Api, path: str) -> None:
    """Wait until the objects of a new definition can be listed and written."""
    if api.server is None:
        parts = path.split("/")
        await api.until(f"{DEFINITIONS}/{parts[-1]}.{parts[2]}", _established)
    await api.until(path, lambda found: found is not None)


def _established(found: Json) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
