"""RBAC from what a setup function declares."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from ctrlruntime.api import BUILTIN, ApiModel, GroupVersionKind, Resource
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.controller import Builder, Request
from ctrlruntime.controller.handlers import enqueue_object
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.generate.cli import generate
from ctrlruntime.generate.permissions import Rule
from ctrlruntime.generate.setup import SetupError, declarations_of
from ctrlruntime.manager import Manager, ManagerOptions, MetricsServing, WebhookOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("DX-2")

PAGE = Path(__file__).parents[2] / "docs" / "first-controller.md"
READ = ["get", "list", "watch"]
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
NODE = BUILTIN[GroupVersionKind("", "v1", "Node")]
SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]
RBAC = "rbac.authorization.k8s.io"


class CrateSpec(ApiModel):
    size: int = 1


class Crate(Resource[CrateSpec], group="setup.example.com", version="v1"):
    """A crate."""


async def reconcile(_request: Request) -> None:
    return None


def setup(manager: Manager) -> None:
    manager.cache.declare(NODE, metadata_only=True)
    (
        Builder(manager)
        .for_(Crate)
        .owns(CONFIG_MAP)
        .watches(SECRET, enqueue_object)
        .permission("", "pods", "delete")
        .build(reconcile)
    )


def rights(rules: Iterable[Rule]) -> dict[tuple[str | None, str, str], set[str]]:
    """Verbs by namespace, group and resource."""
    found: dict[tuple[str | None, str, str], set[str]] = {}
    for rule in rules:
        for group in rule.groups:
            for resource in rule.resources:
                found.setdefault((rule.namespace, group, resource), set()).update(rule.verbs)
    return found


OWN = {*READ, "create", "delete", "patch", "update"}
DECLARED = {
    ("setup.example.com", "crates"): {*READ, "patch", "update"},
    ("setup.example.com", "crates/status"): {"get", "patch", "update"},
    ("setup.example.com", "crates/finalizers"): {"update"},
    ("", "configmaps"): OWN,
    ("", "secrets"): set(READ),
    ("", "nodes"): {"list", "watch"},
    ("", "pods"): {"delete"},
    ("events.k8s.io", "events"): {"create", "patch"},
}


def test_every_declaration_gives_the_verbs_that_it_needs_and_no_others() -> None:
    found = declarations_of(setup)
    assert found.kinds == (Crate,)
    assert rights(found.rules) == {(None, *key): verbs for key, verbs in DECLARED.items()}


def test_the_options_add_the_lease_the_metrics_and_the_webhooks_of_the_manager() -> None:
    def with_webhook(manager: Manager) -> None:
        setup(manager)
        manager.webhooks.handle("/check", lambda _review: None)  # type: ignore[arg-type]

    options = ManagerOptions(
        leader_election=True,
        leader_election_id="crates",
        leader_election_shared_id="all",
        leader_election_namespace="here",
        metrics=MetricsServing(secure=True, authorize=True),
        webhook=WebhookOptions(secret_namespace="here", validating_configurations=("crates",)),
    )
    found = declarations_of(with_webhook, options)
    more = {key: verbs for key, verbs in rights(found.rules).items() if key[1:] not in DECLARED}
    assert more == {
        ("here", "coordination.k8s.io", "leases"): {"create", "get", "update", "watch"},
        (None, "authentication.k8s.io", "tokenreviews"): {"create"},
        (None, "authorization.k8s.io", "subjectaccessreviews"): {"create"},
        (None, "admissionregistration.k8s.io", "validatingwebhookconfigurations"): {
            "get",
            "patch",
            "watch",
        },
    }
    (lease,) = [r for r in found.rules if "leases" in r.resources and "get" in r.verbs]
    assert lease.names == ("crates", "all")
    assert rights(found.rules)["here", "", "secrets"] == {"create", "get", "update", "watch"}


def test_a_manager_of_some_namespaces_gets_its_rights_there_alone() -> None:
    found = rights(declarations_of(setup, ManagerOptions(namespaces=("a", "b"))).rules)
    assert found["a", "", "configmaps"] == found["b", "", "configmaps"] == OWN
    assert [key for key in found if key[0] is None] == [(None, "", "nodes")]


def test_a_setup_that_needs_an_api_server_is_an_error_with_a_clear_message() -> None:
    async def reads(manager: Manager) -> None:
        await manager.live_client.get(CONFIG_MAP, "settings", namespace="default")

    with pytest.raises(SetupError, match=r"reads\(manager\) failed.*declare only"):
        declarations_of(reads)


def test_a_setup_may_be_a_coroutine_function() -> None:
    async def later(manager: Manager) -> None:
        await asyncio.sleep(0)
        setup(manager)

    assert declarations_of(later) == declarations_of(setup)


@pytest.fixture
def website(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The tutorial's program, as a module that can be imported."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "website.py").write_text(found[1])
    (tmp_path / "wiring.py").write_text("from website import setup\nOPTIONS = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import website  # type: ignore[import-not-found]

    yield website
    for name in ("website", "wiring"):
        sys.modules.pop(name, None)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(generate, [str(argument) for argument in arguments])


def test_the_command_finds_kinds_and_rights_by_the_setup_alone(
    website: object, tmp_path: Path
) -> None:
    out = tmp_path / "config"
    for name in ("website:setup", "wiring:setup"):
        result = run("all", "--setup", name, "--output-dir", out)
        assert result.exit_code == 0, result.output
        files = {str(path.relative_to(out)) for path in out.rglob("*.yaml")}
        assert files == {"crd/bases/example.com_websites.yaml", "rbac/role.yaml"}
        assert run("all", "--setup", name, "--check", "--output-dir", out).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name what to look in: --setup MODULE:FUNCTION"),
        (["--setup", "website"], "name the module and what is in it, as in website:setup"),
        (["--setup", "website:none"], "module website has no none"),
        (["--setup", "website:DEPLOYMENT"], "is no function"),
        (["--setup", "website:setup", "--options", "wiring:OPTIONS"], "is no ManagerOptions"),
        (["--module", "website", "--options", "wiring:OPTIONS"], "--options needs --setup"),
    ],
)
def test_what_is_not_to_be_found_is_an_error_with_the_fix(
    website: object, arguments: list[str], message: str
) -> None:
    result = run("rbac", "--stdout", *arguments)
    assert result.exit_code != 0
    assert message in result.output


def test_a_file_that_cannot_be_written_is_an_error(website: object, tmp_path: Path) -> None:
    (tmp_path / "crd").touch()
    result = run("crd", "--setup", "website:setup", "--output-dir", tmp_path)
    assert result.exit_code == 1
    assert result.output.startswith("Error: [Errno ")


async def test_the_tutorials_controller_works_with_the_generated_role_and_nothing_more(
    website: ModuleType, tmp_path: Path
) -> None:
    """On a server that checks rights; without the role its caches do not sync."""
    result = await asyncio.to_thread(
        run, "all", "--setup", "website:setup", "--output-dir", tmp_path
    )
    assert result.exit_code == 0, result.output
    role = yaml.safe_load((tmp_path / "rbac" / "role.yaml").read_text())
    subject = {"apiGroup": RBAC, "kind": "User", "name": "manager"}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "manager"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [subject],
    }
    users = (administrator("admin"), User(name="manager"))
    async with Environment(users=users, authorization="RBAC", proxy=True, nodes=True) as env:
        await env.install_crds(website.Website)
        admin = env.client("admin")
        with pytest.raises(Forbidden):
            await env.client("manager").list(website.Website, namespace="default")
        await admin.create(role)
        await admin.create(binding)
        manager = make_manager(env.config("manager"))
        website.setup(manager)
        mark = env.proxy.log.mark()
        async with manager.running():
            await admin.create(
                website.Website.from_manifest(
                    {
                        "metadata": {"name": "hello", "namespace": "default"},
                        "spec": {"image": "nginx"},
                    }
                )
            )
            await eventually(
                lambda: admin.get(website.Website, "hello", namespace="default"),
                lambda site: site.status.ready == 1,
            )
        refused = [e for e in env.proxy.log.entries(mark) if e.user == "manager" and e.code == 403]
        assert refused == []
