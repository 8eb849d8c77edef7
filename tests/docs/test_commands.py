"""Every block of commands, code or manifests in README.md and docs/ is executed.

A table says how the blocks of each document are run; a block that no entry covers fails the test.
"""

from __future__ import annotations

import ast
import filecmp
import inspect
import os
import shutil
import signal
import socket
import sqlite3
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cloud import (
    FleetRollout,
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    UpgradeInstanceTask,
)
from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.envtest import Environment, User, administrator
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.merge.patches import merge_patch
from ctrlruntime.envtest.process import ChildProcess
from internal.cosmos.fullnode.ports import RPC
from tests.docs.blocks import OUTPUT, PICTURES, ROOT, RUNNABLE, Block, blocks, documents, runnable
from tests.docs.terminal import Terminal
from tests.envtest.kubectl.binaries import provisioned

CLOUD_KINDS = (
    FleetRollout,
    Instance,
    InstanceInvariants,
    InstanceKubernetes,
    InstanceKubernetesPVC,
    InstanceTerraform,
    UpgradeInstanceTask,
)
KINDS = (ChangeFreeze, TenantRegistry, TenantTemplate, Tenant, *CLOUD_KINDS)
SAMPLES = ROOT / "config" / "samples"


@dataclass
class Run:
    """One document being executed."""

    folder: Path
    terminal: Terminal
    stack: AsyncExitStack
    program: dict[str, Any] = field(default_factory=dict)


Step = Callable[[Run, Block], Awaitable[None]]
Meanwhile = Callable[[Run], Awaitable[None]]


async def shell(run: Run, block: Block) -> None:
    """Commands, in the document's one shell."""
    await run.terminal.run(block.text, what=str(block))


def in_another_terminal(until: str) -> Step:
    """A command that stays: started, waited for until it prints this, Ctrl-C at the end."""

    async def start(run: Run, block: Block) -> None:
        await run.terminal.start(block.text, until=until, what=str(block))

    return start


async def the_test_command(_run: Run, block: Block) -> None:
    """`make test` cannot run inside itself: continuous integration runs it, with more of the heavy proofs."""
    commands = (ROOT / ".ci" / "run").read_text().rstrip().splitlines()
    assert commands[-1] == f"exec {block.text.strip()} TESTS=ci"


async def image_and_help(run: Run, block: Block) -> None:
    """Make shows what it would do to build and push an image; the other command is run."""
    make, _, rest = block.text.partition("\n")
    assert make.startswith("make image push deploy IMG=")
    await run.terminal.run(make.replace("make", "make -n", 1), what=str(block))
    await run.terminal.run(rest, what=str(block))


def followed_by(test: str) -> Step:
    """A part of a whole that another test puts together and runs."""

    async def check(_run: Run, block: Block) -> None:
        assert Path(block.document).name in (ROOT / test).read_text()

    return check


def saved_as(name: str) -> Step:
    """A file that later commands use."""

    async def save(run: Run, block: Block) -> None:
        (run.folder / name).write_text(block.text)

    return save


async def in_one_program(run: Run, block: Block) -> None:
    """Code as in `python -m asyncio`, which allows `await` anywhere."""
    source = "\n" * block.line + block.text
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, block.document, "exec", flags=flags, dont_inherit=True)
    result = eval(code, run.program)
    if inspect.iscoroutine(result):
        await result


async def applied(_run: Run, block: Block) -> None:
    """A whole manifest, created with strict validation."""
    await create(yaml.safe_load(block.text))


async def tried_elsewhere(_run: Run, block: Block) -> None:
    """Manifests that another test applies to a real server; here they are well-formed alone."""
    assert all(each["kind"] for each in yaml.safe_load_all(block.text))


def applied_within(sample: str, *path: str) -> Step:
    """A part of a manifest: put at its place in a sample, which is then created."""

    async def apply(_run: Run, block: Block) -> None:
        manifest = yaml.safe_load((SAMPLES / sample).read_text())
        place = manifest
        for key in path:
            place = place[key]
        place.update(yaml.safe_load(block.text))
        await create(manifest)

    return apply


def merged_into(sample: str) -> Step:
    """A part of a manifest from its root on: merged into a sample, which is then created."""

    async def apply(_run: Run, block: Block) -> None:
        manifest = yaml.safe_load((SAMPLES / sample).read_text())
        await create(merge_patch(manifest, yaml.safe_load(block.text)))

    return apply


async def dry_run(run: Run, block: Block) -> None:
    """Commands that exclude each other, or remove what later blocks need: tried on the server alone."""
    tried = block.text
    for verb in ("annotate", "delete"):
        tried = tried.replace(f"kubectl {verb} ", f"kubectl {verb} --dry-run=server ")
    await run.terminal.run(tried, what=str(block))


async def create(manifest: dict[str, Any]) -> None:
    """Create the manifest on a server of our kinds. Unknown fields are errors."""
    kind = next(kind for kind in KINDS if kind.__name__ == manifest["kind"])
    namespace = "default" if kind.mapping().namespaced else None
    if namespace is not None:
        manifest["metadata"].setdefault("namespace", namespace)
    async with Environment() as env:
        await env.install_crds(*KINDS)
        await env.client().create(manifest, field_validation="Strict")
        await env.client().get(kind, manifest["metadata"]["name"], namespace=namespace)


@dataclass(frozen=True)
class Document:
    """How a document is run: its folder a copy of the checkout or empty, its blocks in order."""

    steps: tuple[Step, ...] = ()
    checkout: bool = False
    before: Meanwhile | None = None
    between: dict[int, Meanwhile] = field(default_factory=dict)
    """What happens before a block (counted from 0) without standing in the document."""
    unchanged: str = ""
    """A folder of the checkout that the commands must leave as it is."""


async def a_cluster_with_roles(run: Run) -> None:
    """The cluster of docs/tenancy.md: RBAC, an administrator, the manager's service account."""
    name = "system:serviceaccount:manager-system:manager"
    account = User(name=name, groups=("system:serviceaccounts",))
    users = [administrator("admin"), account]
    env = Environment("embedded-process", users=users, authorization="RBAC", tls=True, nodes=True)
    run.program["env"] = await run.stack.enter_async_context(env)
    await run.terminal.run(f"export KUBECONFIG={env.kubeconfig('admin')}", what="kubeconfig")


async def a_cluster_with_instances(run: Run) -> None:
    """The cluster of docs/cloud.md: the kinds of the cloud system."""
    env = await run.stack.enter_async_context(Environment("embedded-process", tls=True))
    await env.install_crds(*CLOUD_KINDS)
    await run.terminal.run(f"export KUBECONFIG={env.kubeconfig('admin')}", what="kubeconfig")


async def a_manager_with_one_tenant(run: Run) -> None:
    """The manager works under the very role that the page binds, and has made a tenant."""
    env: Environment = run.program["env"]
    with sqlite3.connect(run.folder / "rows.sqlite") as rows:
        rows.execute("CREATE TABLE tenant_data (tenant_id, domain, is_active, subscription_plan, "
                     "container_image, replicas)")  # fmt: skip
        rows.execute("INSERT INTO tenant_data VALUES ('acme', 'acme.example.com', 1, '', 'web', 1)")
    rows.close()
    kubeconfig = env.kubeconfig("system:serviceaccount:manager-system:manager")
    command = [sys.executable, "-m", "manager", "run", "--kubeconfig", str(kubeconfig)]
    command += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
    command += ["--allow-sqlite", str(run.folder), "--system", "tenancy"]
    log = run.folder / "manager.log"
    manager = await ChildProcess.start(command, log=log, cwd=ROOT, ready=False)
    run.stack.push_async_callback(manager.stop)
    admin = env.client("admin")
    registry = yaml.safe_load((SAMPLES / "tenantregistry.yaml").read_text())
    registry["spec"]["source"] = {
        "type": "sqlite",
        "sqlite": {"path": "rows.sqlite", "table": "tenant_data"},
    }
    template = yaml.safe_load((SAMPLES / "tenanttemplate.yaml").read_text())
    for manifest in (registry, template):
        manifest["metadata"]["namespace"] = "default"
        await admin.create(manifest)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    try:
        await eventually(admin, Tenant, "acme-web-app", ready, namespace="default", timeout=60)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{manager.log_tail()}") from error


def port_is_free(port: int) -> Meanwhile:
    """Fail at once where a program that a killed run left behind has a port: the document would wait for its answers."""

    async def look(_run: Run) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError as error:
                pytest.fail(
                    f"port {port}: {error.strerror}; end what `ss -ltnp | grep :{port}` shows"
                )

    return look


DEMO = in_another_terminal(until="tenants are ready")
DOCUMENTS: dict[str, Document] = {
    "README.md": Document(
        steps=(
            DEMO,
            shell,
            shell,
            the_test_command,
            applied,
            image_and_help,
        ),
        checkout=True,
        unchanged="config",
    ),
    "docs/first-controller.md": Document(
        steps=(
            followed_by("tests/wheel/test_wheel.py"),
            saved_as("website.py"),
            shell,
            shell,
            followed_by("tests/wheel/test_wheel.py"),
            saved_as("test_website.py"),
            shell,
            saved_as("test_website_faults.py"),
            shell,
        )
    ),
    "docs/start.md": Document(steps=(followed_by("tests/wheel/test_project.py"),) * 4),
    "docs/simulation.md": Document(
        steps=(saved_as("shop.py"), saved_as("test_shop.py"), shell, shell)
    ),
    "docs/tutorials/first-tenant.md": Document(
        steps=(DEMO, shell, shell, saved_as("mailbox.yaml"), *(shell,) * 5), checkout=True
    ),
    "docs/tutorials/four-processes.md": Document(
        steps=(in_another_terminal("serving"), *(shell,) * 6), checkout=True
    ),
    "docs/tutorials/a-bad-change.md": Document(steps=(DEMO, *(shell,) * 7), checkout=True),
    "docs/tutorials/first-instance.md": Document(steps=(DEMO, *(shell,) * 6), checkout=True),
    "docs/tutorials/first-chain.md": Document(
        steps=(
            DEMO,
            saved_as("chain.py"),
            in_another_terminal(until="answering"),
            *(shell,) * 5,
        ),
        checkout=True,
        before=port_is_free(RPC),
    ),
    "docs/tutorials/fleet-rollout.md": Document(
        steps=(DEMO, shell, saved_as("release.yaml"), *(shell,) * 4), checkout=True
    ),
    "docs/operations/manager-token.md": Document(
        steps=(followed_by("tests/manifests/test_account_powers.py"),)
    ),
    "docs/how-to/develop.md": Document(steps=(followed_by("tests/cli/test_dev_program.py"),)),
    "docs/how-to/tls.md": Document(steps=(applied,)),
    "docs/how-to/cert-manager.md": Document(steps=(applied,)),
    "docs/how-to/external-secrets.md": Document(steps=(applied,)),
    "docs/how-to/debug-a-template.md": Document(steps=(shell,) * 3, checkout=True),
    "docs/tenancy.md": Document(
        steps=(
            shell,
            applied,
            applied,
            shell,
            dry_run,
            dry_run,
            dry_run,
            applied_within("tenanttemplate.yaml", "spec"),
            applied_within("tenanttemplate.yaml", "spec"),
            applied_within("tenanttemplate.yaml", "spec"),
            applied,
            merged_into("tenanttemplate.yaml"),
            applied_within("tenanttemplate.yaml", "spec"),
            applied_within("tenanttemplate-jobs.yaml", "spec"),
            shell,
        ),
        checkout=True,
        before=a_cluster_with_roles,
        between={3: a_manager_with_one_tenant},
    ),
    "docs/cloud.md": Document(
        steps=(
            merged_into("fleetrollout-patch.yaml"),
            dry_run,
            merged_into("instance.yaml"),
            merged_into("instance.yaml"),
        ),
        before=a_cluster_with_instances,
    ),
    "docs/operations.md": Document(
        steps=(applied, merged_into("changefreeze.yaml"), merged_into("instance.yaml"))
    ),
    "docs/envtest.md": Document(
        steps=(
            saved_as("conftest.py"),
            saved_as("test_settings.py"),
            saved_as("test_idle.py"),
            shell,
            in_one_program,
            in_one_program,
            in_one_program,
            shell,
        )
    ),
    "docs/console.md": Document(
        steps=(
            followed_by("tests/console/test_run_log.py"),
            followed_by("tests/manifests/test_console_chart.py"),
            followed_by("tests/console/test_users.py"),
        )
    ),
    "docs/sources.md": Document(steps=(followed_by("tests/tenancy/test_registered_source.py"),)),
    "docs/adding-a-subresource.md": Document(
        steps=(followed_by("tests/cloud/test_adding_a_subresource.py"),) * 5
    ),
    "docs/concepts.md": Document(steps=(in_one_program,) * len(runnable("docs/concepts.md"))),
    "docs/how-to/deploy-a-controller.md": Document(steps=(saved_as("website.py"), shell)),
    "docs/packages/generate.md": Document(steps=(in_one_program, shell)),
    **{
        page: Document(steps=(in_one_program,) * len(runnable(page)))
        for page in documents()
        if page.startswith(
            (
                "docs/adding-a-kind",
                "docs/packages/",
                "docs/coming-from",
                "docs/multicluster",
                "docs/numbered-instances",
                "docs/sharding",
                "docs/webhooks",
            )
        )
        and not page.endswith("/generate.md")
    },
    "docs/removal-gate.md": Document(
        steps=(merged_into("tenantregistry.yaml"), tried_elsewhere, *(in_one_program,) * 3)
    ),
    "docs/decisions/sensitive-mappings.md": Document(
        steps=(applied_within("tenantregistry.yaml", "spec"),)
    ),
}
"""How each document is run. A document without an entry has nothing to run."""


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """kubectl 1.32, from the cache that `make test` fills."""
    return provisioned()


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where the commands run: as after `git clone`, or an empty folder."""
    made = tmp_path / "work"
    if not DOCUMENTS.get(request.getfixturevalue("document"), Document()).checkout:
        made.mkdir()
        yield made
        return
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".run", ".*_cache", ".hypothesis", "*.pyc.*", "*.whl", "build"
    )
    shutil.copytree(ROOT, made, ignore=ignored)
    environment = Path(sys.prefix)
    assert (environment / ".lock.sha256").is_file(), "make the virtual environment by `make setup`"
    (made / ".venv").symlink_to(environment)
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def started(document: Document, folder: Path, kubectl: Path) -> AsyncIterator[Run]:
    path = f"{kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    terminal = Terminal(folder, {"PATH": path, "KUBECONFIG": "/nonexistent"})
    async with AsyncExitStack() as stack:
        stack.push_async_callback(terminal.close)
        run = Run(folder, terminal, stack)
        if document.before is not None:
            await document.before(run)
        yield run


@pytest.mark.parametrize("document", documents())
def test_every_block_has_an_entry(document: str) -> None:
    for block in blocks(document):
        known = block.language in RUNNABLE | PICTURES | OUTPUT
        assert known, f"{block}: say what the block is"
    steps = DOCUMENTS.get(document, Document()).steps
    found = runnable(document)
    listing = "\n".join(map(str, found))
    assert len(steps) == len(found), f"{len(steps)} entries in DOCUMENTS for:\n{listing}"


async def test_a_port_that_is_taken_is_named_at_once(tmp_path: Path) -> None:
    run = Run(tmp_path, Terminal(tmp_path, {}), AsyncExitStack())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(pytest.fail.Exception, match=f"port {port}: Address already in use"):
            await port_is_free(port)(run)
    await port_is_free(port)(run)


async def test_ctrl_c_ends_a_program_though_it_was_ignored_where_the_tests_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait for the program's end by Ctrl-C, at most 20 s. A shell lets what runs in its background ignore SIGINT."""
    monkeypatch.setattr("tests.docs.terminal.LONGEST_END", 20.0)
    terminal = Terminal(tmp_path, {})
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        program = "import time; print('begun', flush=True); time.sleep(600)"
        command = f'{sys.executable} -c "{program}"'
        await terminal.start(command, until="begun", what="a program")
    finally:
        signal.signal(signal.SIGINT, before)
    await terminal.close()


OF_TENANTS = {"docs/tutorials/first-tenant.md"}
"""What a user of the tenancy system follows first."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            name,
            marks=[pytest.mark.criterion("FAULT-B38")] if name in OF_TENANTS else [],
        )
        for name in sorted(DOCUMENTS)
    ],
)
async def test_every_block_works(document: str, folder: Path, kubectl: Path) -> None:
    entry = DOCUMENTS[document]
    async with started(entry, folder, kubectl) as run:
        for number, (step, block) in enumerate(zip(entry.steps, runnable(document), strict=True)):
            if number in entry.between:
                await entry.between[number](run)
            await step(run, block)
    if entry.unchanged:
        compared = filecmp.dircmp(ROOT / entry.unchanged, folder / entry.unchanged)
        assert differing(compared) == []


def differing(compared: filecmp.dircmp[str]) -> list[str]:
    """Files that differ or are on one side only, below both folders."""
    found = [*compared.left_only, *compared.right_only, *compared.diff_files]
    for inner in compared.subdirs.values():
        found += differing(inner)
    return found
