"""D-20 to D-23: what `generate all` writes runs as it is, all of it from one declaration."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner, Result

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Invalid
from ctrlruntime.client.patches import PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.generate.cli import generate
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.health import CheckFailed
from tests.backends import SharedServer
from tests.envtest.kubectl.binaries import provisioned
from tests.manifests import gadgets
from tests.manifests.installation import Manifest
from tests.manifests.test_chart import helm
from tests.support.manager_harness import make_manager
from tests.support.pods import account_kubeconfig
from tests.support.waiting import eventually

__all__ = ["helm"]
pytestmark = pytest.mark.xdist_group("manifests")

SETUP = f"{gadgets.__name__}:setup"
NAMESPACE = "gadgets-system"
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
ADMISSION = "admissionregistration.k8s.io"
MUTATING = GroupVersionKind(ADMISSION, "v1", "MutatingWebhookConfiguration")
VALIDATING = GroupVersionKind(ADMISSION, "v1", "ValidatingWebhookConfiguration")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(generate, [str(argument) for argument in arguments])


def written(folder: Path, *arguments: str | Path) -> Path:
    """Write everything for the program. Return the folder to apply."""
    result = run("all", "--setup", SETUP, "--output-dir", folder, *arguments)
    assert result.exit_code == 0, result.output
    return folder / "default"


def objects(text: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(text) if each]


def kustomized(folder: Path) -> list[Manifest]:
    command = [str(provisioned()), "kustomize", str(folder)]
    return objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def by_kind(found: Iterable[Manifest]) -> dict[str, list[Manifest]]:
    kinds: dict[str, list[Manifest]] = {}
    for each in found:
        kinds.setdefault(each["kind"], []).append(each)
    return kinds


# -- one declaration ---------------------------------------------------------------------------


@pytest.mark.criterion("D-20")
def test_d_20_every_name_that_two_artefacts_share_is_the_one_of_the_options(
    tmp_path: Path,
) -> None:
    kinds = by_kind(kustomized(written(tmp_path)))
    (deployment,), (account,) = kinds["Deployment"], kinds["ServiceAccount"]
    services = {each["metadata"]["name"]: each["spec"] for each in kinds["Service"]}
    (crd,), (mutating,), (validating,) = (kinds[each.kind] for each in (CRD, MUTATING, VALIDATING))
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}

    assert mutating["metadata"]["name"] == "gadgets-defaults"
    assert validating["metadata"]["name"] == "gadgets-checks"
    called = [
        hook["clientConfig"]["service"]
        for each in (mutating, validating)
        for hook in each["webhooks"]
    ]
    called.append(crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"])
    assert {(each["namespace"], each["name"]) for each in called} == {
        (NAMESPACE, "gadgets-webhooks")
    }
    assert set(services) == {"gadgets-webhooks", "gadgets-metrics"}
    for service in services.values():
        assert service["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
        assert {each["targetPort"] for each in service["ports"]} <= set(ports)
    assert ports == {"metrics": 8443, "probes": 8081, "webhooks": 9443}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "probes"}
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    roles = {
        (r["kind"], r["metadata"].get("namespace")) for r in [*kinds["ClusterRole"], *kinds["Role"]]
    }
    bound = {
        (b["roleRef"]["kind"], b["metadata"].get("namespace"))
        for b in [*kinds["ClusterRoleBinding"], *kinds["RoleBinding"]]
    }
    assert bound == roles == {("ClusterRole", None), ("Role", NAMESPACE)}


@pytest.mark.criterion("D-20")
def test_d_20_what_the_user_wrote_stays_and_what_the_code_no_longer_has_goes(
    tmp_path: Path,
) -> None:
    mine = written(tmp_path) / "kustomization.yaml"
    mine.write_text(mine.read_text() + "commonAnnotations: {mine: 'yes'}\n")
    (tmp_path / "crd/bases/gadgets.example.com_others.yaml").write_text("old\n")
    (tmp_path / "manager/manager.yaml").write_text("old\n")
    check = run("all", "--setup", SETUP, "--output-dir", tmp_path, "--check")
    assert check.exit_code == 1
    assert "-old" in check.output
    assert "mine" not in check.output
    written(tmp_path)
    assert "mine" in mine.read_text()
    assert not (tmp_path / "crd/bases/gadgets.example.com_others.yaml").exists()
    assert run("all", "--setup", SETUP, "--output-dir", tmp_path, "--check").exit_code == 0


PROGRAM = """
from dataclasses import replace
from pathlib import Path
from tests.manifests import gadgets
from ctrlruntime.manager import Manager, ManagerOptions, WebhookOptions

OPTIONS = {options}

def setup(manager: Manager) -> None:
    {setup}
"""


def program(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    setup: str = "gadgets.setup(manager)",
) -> str:
    """Write a module with these options. Return its name."""
    name = f"program_{folder.name.replace('-', '_')}"
    (folder / f"{name}.py").write_text(PROGRAM.format(options=options, setup=setup))
    monkeypatch.syspath_prepend(folder)
    return name


@pytest.mark.criterion("D-20")
@pytest.mark.parametrize(
    ("given", "annotations", "mounts"),
    [
        ("inject_annotated=True", {"ctrlruntime.dev/inject-ca-from": "gadgets-system/webhook-server-cert"}, []),
        ("certificate_folder=Path('/certs')", None, [("webhook-server-cert", "/certs")]),
    ],
)  # fmt: skip
def test_d_20_configurations_without_a_name_get_their_ca_another_way(
    given: str,
    annotations: dict[str, str] | None,
    mounts: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = f"replace(gadgets.OPTIONS, webhook=WebhookOptions({given}))"
    name = program(tmp_path, monkeypatch, options)
    result = run("all", "--setup", f"{name}:setup", "--output-dir", tmp_path / "config")
    assert result.exit_code == 0, result.output
    kinds = by_kind(kustomized(tmp_path / "config/default"))
    for each in (*kinds[MUTATING.kind], *kinds[VALIDATING.kind]):
        assert each["metadata"].get("annotations") == annotations
    pod = kinds["Deployment"][0]["spec"]["template"]["spec"]
    secrets = {each["name"]: each["secret"]["secretName"] for each in pod.get("volumes", ())}
    mounted = pod["containers"][0].get("volumeMounts", ())
    assert [(secrets[each["name"]], each["mountPath"]) for each in mounted] == mounts


@pytest.mark.criterion("D-20")
@pytest.mark.parametrize(
    ("options", "setup", "arguments", "code", "message"),
    [
        ("gadgets.OPTIONS", "gadgets.setup(manager)", ("--name", "No Name"), 1, "--name No Name: lower-case"),
        ("None", "gadgets.setup(manager)", (), 0, "no Deployment: name the program's ManagerOptions, --options"),
        ("None", "gadgets.setup(manager)", ("--helm", "chart"), 2, "no Deployment: name the program's"),
        ("ManagerOptions()", "gadgets.setup(manager)", (), 1, 'WebhookOptions(mutating_configurations=("NAME",))'),
        ("replace(gadgets.OPTIONS, health_bind_address='127.0.0.1:8081')", "gadgets.setup(manager)", (), 0,
         "health_bind_address is 127.0.0.1:8081: nothing outside"),
        ("replace(gadgets.OPTIONS, health_bind_address=':0')", "gadgets.setup(manager)", (), 1, "fix it"),
        ("replace(gadgets.OPTIONS, webhook=replace(gadgets.OPTIONS.webhook, secret_namespace='a'))",
         "gadgets.setup(manager)", ("--namespace", "b"), 1, "Leave one of the two out"),
        ("gadgets.OPTIONS", "manager.webhooks.convert(gadgets.Gadget, gadgets.OldGadget)", (), 0,
         "Gadget declares admission that nothing serves: call manager.webhooks.register(Gadget)"),
        ("gadgets.OPTIONS", "manager.webhooks.register(gadgets.Gadget)", ("--module", gadgets.__name__), 0,
         "OldGadget is a version that nothing converts: call manager.webhooks.convert"),
        ("gadgets.OPTIONS", "gadgets.setup(manager); manager.webhooks.handle('/x', lambda _: None)", (), 0,
         "nothing calls the webhook at /x: list it as Webhook(path='/x', ...) in WEBHOOKS"),
    ],
)  # fmt: skip
def test_d_20_what_does_not_fit_together_is_named_with_what_to_write_instead(
    options: str,
    setup: str,
    arguments: tuple[str, ...],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = program(tmp_path, monkeypatch, options, setup)
    out = tmp_path / "config"
    result = run("all", "--setup", f"{name}:setup", "--output-dir", out, *arguments)
    assert (result.exit_code, message in result.output) == (code, True), result.output
    assert out.exists() == (code == 0)


# -- the chart ---------------------------------------------------------------------------------


@pytest.mark.criterion("D-22")
def test_d_22_the_chart_installs_what_kustomize_does_in_the_release_s_namespace(
    tmp_path: Path, helm: str
) -> None:
    expected = kustomized(written(tmp_path / "config", "--helm", tmp_path / "chart"))
    command = [helm, "template", "gadgets", str(tmp_path / "chart"), "--namespace", NAMESPACE]

    def rendered(*values: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *values], capture_output=True, text=True, check=False)

    made = rendered()
    assert made.returncode == 0, made.stderr

    def comparable(found: Iterable[Manifest]) -> dict[tuple[str, str], Any]:
        known = {}
        for each in found:
            if each["kind"] != "Namespace":
                each["metadata"].pop("annotations", None)
                known[each["kind"], each["metadata"]["name"]] = each
        return known

    chart, kustomize = comparable(objects(made.stdout)), comparable(expected)
    key = ("Deployment", "gadgets")
    pods = [each.pop(key)["spec"]["template"]["spec"] for each in (chart, kustomize)]
    assert chart == kustomize
    containers = [pod.pop("containers")[0] for pod in pods]
    assert pods[1].items() <= pods[0].items()
    assert containers[1].items() <= containers[0].items()
    assert rendered("--set", "imagge=x").returncode != 0
    assert '"image": "mine:1"' not in made.stdout
    (changed,) = by_kind(objects(rendered("--set", "image=mine:1", "--set", "replicas=5").stdout))[
        "Deployment"
    ]
    assert changed["spec"]["replicas"] == 5
    assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:1"


# -- on a server -------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def applied(environment: Environment, folder: Path) -> AsyncIterator[None]:
    """Apply the folder as a person would, without an edit; delete it at the end."""

    async def kubectl(*arguments: str | Path) -> None:
        process = await asyncio.create_subprocess_exec(
            provisioned(), f"--kubeconfig={environment.kubeconfig('admin', direct=True)}",
            f"--cache-dir={environment.folder / 'kubectl'}", *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        answer, _ = await process.communicate()
        assert process.returncode == 0, answer.decode()

    try:
        await kubectl("apply", "--server-side", "-k", folder)
        await environment.install_crds(folder.parent / "crd/bases")
        yield
    finally:
        await kubectl("delete", "--wait=false", "--ignore-not-found", "-k", folder)


async def call_here(client: Client, port: int) -> None:
    """Lead the webhooks to this machine, as a cluster's network does by the Service."""
    url = f"https://127.0.0.1:{port}"
    for kind, name, places in (
        (MUTATING, "gadgets-defaults", ["/webhooks/0"]),
        (VALIDATING, "gadgets-checks", ["/webhooks/0"]),
        (CRD, f"gadgets.{gadgets.GROUP}", ["/spec/conversion/webhook"]),
    ):
        live: Any = await client.get(kind, name)
        for place in places:
            holder = live
            for step in place.split("/")[1:]:
                holder = holder[int(step) if step.isdigit() else step]
            service = holder["clientConfig"]["service"]
            called = {**holder["clientConfig"], "url": url + service["path"]}
            del called["service"]
            patch = [{"op": "replace", "path": f"{place}/clientConfig", "value": called}]
            await client.patch(kind, name, patch, type=PatchType.JSON)


def here(options: ManagerOptions, port: int) -> dict[str, Any]:
    """Return the options of the program with what a Pod has by its network and the mount of its account."""
    webhook = replace(
        options.webhook,
        host="127.0.0.1",
        port=port,
        hosts=("127.0.0.1",),
        secret_namespace=NAMESPACE,
    )
    return {
        **{name: getattr(options, name) for name in options.__slots__},
        "leader_election_namespace": NAMESPACE,
        "metrics_bind_address": "127.0.0.1:0",
        "health_bind_address": "0",
        "webhook": webhook,
    }


@pytest.mark.criterion("D-21")
async def test_d_21_the_program_runs_from_what_was_generated_with_the_account_that_was_made(
    real_server: SharedServer, tmp_path: Path
) -> None:
    """On the real server, with the account's own token: nothing refused, and no right of the manager's unused.

    Some seconds: kubectl builds and applies twenty objects, and deletes them.
    """
    folder = await asyncio.to_thread(written, tmp_path / "config")
    async with (
        real_server.environment(folder=tmp_path, users=("admin",), proxy=True) as environment,
        applied(environment, folder),
    ):
        client, port = environment.client("admin"), free_port()
        await call_here(client, port)
        kubeconfig = await account_kubeconfig(environment, NAMESPACE, "gadgets", "gadgets")
        (tmp_path / "account").write_text(kubeconfig)
        config = await Config.load(kubeconfig=tmp_path / "account")
        manager = make_manager(config, **here(gadgets.OPTIONS, port))
        gadgets.setup(manager)
        mark = environment.proxy.log.mark()
        async with manager.running():
            await eventually(manager.webhooks.check, despite=(CheckFailed,))
            await uses_all(client, manager)
        entries = [each for each in environment.proxy.log.entries(mark) if each.user == "gadgets"]
        assert [each for each in entries if each.code == 403] == []
        rights = granted(kustomized(folder))
        used = {(each.resource, each.verb) for each in entries}
        # An apply is a patch that may create; finalizers are for an admission plugin of the server.
        unused = {resource for resource, _ in rights} - {resource for resource, _ in used}
        assert unused == {"gadgets.gadgets.example.com/finalizers"}
        declared = ("gadgets", "configmaps")
        own = {right for right in rights - used if not right[0].startswith(declared)}
        assert own <= {("secrets", "update"), ("events.events.k8s.io", "patch")}, "later, if ever"


async def uses_all(client: Client, manager: Manager) -> None:
    """Have the program default, refuse, convert, own and report, and answer who reads its metrics."""
    head = {"apiVersion": f"{gadgets.GROUP}/v1", "kind": "Gadget"}
    with pytest.raises(Invalid, match="must be at most 9"):
        await client.create(
            {**head, "metadata": {"name": "big", "namespace": "default"}, "spec": {"size": 10}}
        )
    await client.create(
        {**head, "metadata": {"name": "g", "namespace": "default"}, "spec": {"size": 3}}
    )
    await eventually(
        lambda: client.get(gadgets.Gadget, "g", namespace="default"),
        lambda found: found.status.made == "g",
    )
    await client.get(gadgets.CONFIG_MAP, "g", namespace="default")
    old = await client.get(gadgets.OldGadget, "g", namespace="default")
    assert old.spec.look == "grey-3"
    await client.patch(
        gadgets.OldGadget, "g", {"metadata": {"labels": {"a": "b"}}}, namespace="default"
    )
    spec = (await client.get(gadgets.Gadget, "g", namespace="default")).spec
    assert (spec.color, spec.size) == ("grey", 3)
    await client.delete(gadgets.Gadget, "g", namespace="default")
    assert await read_metrics(manager) == 403  # who is not bound to read them


async def read_metrics(manager: Manager) -> int:
    """Read the metrics by the program's own token. Return the code of the answer."""
    headers = await manager.config.auth.headers()
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"https://127.0.0.1:{manager.metrics_port}/metrics", ssl=False) as answer,
    ):
        return answer.status


def granted(found: Iterable[Manifest]) -> set[tuple[str, str]]:
    """Return the resources and verbs of the roles."""

    def logged(resource: str, group: str) -> str:
        plural, slash, subresource = resource.partition("/")
        return f"{plural}.{group}".removesuffix(".") + slash + subresource

    return {
        (logged(resource, group), verb)
        for role in found
        if role["kind"] in ("Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
