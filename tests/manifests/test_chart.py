"""The Helm chart: what it installs is what kustomize does, and it leaves the CRDs when it goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NoKindMatch, NotFound
from ctrlruntime.envtest import Environment, administrator
from manager.manifests import folders as made
from manager.manifests.metric_catalogue import families
from tests.backends import kube_apiserver
from tests.manifests.installation import (
    NAMESPACE,
    RBAC,
    ROOT,
    SERVICE_ACCOUNT,
    Manifest,
    kustomized,
)
from tests.manifests.test_kustomize import MONITORS, RULES, accepted
from tests.support.waiting import eventually_succeeds

pytestmark = pytest.mark.xdist_group("manifests")

CRD = "CustomResourceDefinition"
CHART = ROOT / "charts" / "ctrlruntime-manager"
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", CRD)
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
BINDING = GroupVersionKind(RBAC, "v1", "ClusterRoleBinding")
WEBHOOKS = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")
OF_ONE = {
    "ctrlruntime-manager-rolebinding",
    "ctrlruntime-metrics-auth-rolebinding",
    "ctrlruntime-validating-webhook-configuration",
}
EVERYTHING = {
    "webhooks": {"enabled": True},
    "podDisruptionBudget": {"enabled": True},
    "shards": {"enabled": True, "autoscaling": {"enabled": True}},
    "networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 443}]}]},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True, "runbookBaseURL": "https://docs.example.com/"},
        "dashboards": {"enabled": True},
    },
    "priorityClassName": "system-cluster-critical",
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
    "args": ["--protected-namespace=production"],
}


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def helm() -> str:
    """Return the path of the helm that `make chart` uses."""
    found = run(ROOT / "hack" / "helm.sh")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the folder of the chart as it is packaged."""
    packed = run(ROOT / "hack" / "chart.sh", "--folder", tmp_path_factory.mktemp("chart"))
    assert packed.returncode == 0, packed.stderr
    return packed.stdout.strip()


class Rendered:
    """What `helm template` makes of values, of all systems unless they choose."""

    def __init__(self, helm: str, chart: str, folder: Path) -> None:
        self._command = [helm, "template", "ctrlruntime", chart, "--namespace", NAMESPACE]
        self._values = folder / "values.json"

    def run(self, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """Run it."""
        self._values.write_text(json.dumps({"systems": [], **values}))
        return run(*self._command, "--values", self._values)

    def __call__(self, values: dict[str, Any]) -> list[Manifest]:
        done = self.run(values)
        assert done.returncode == 0, done.stderr
        return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


@pytest.fixture
def rendered(helm: str, chart: str, tmp_path: Path) -> Rendered:
    """Return what renders the chart."""
    return Rendered(helm, chart, tmp_path)


def comparable(manifests: list[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    """Return manifests by kind, namespace and name, without what says which tool made them."""
    found = {}
    for each in manifests:
        kind, metadata = each["kind"], each["metadata"]
        if kind == "Namespace":  # the release's own; helm makes it with --create-namespace
            continue
        for tool in ("managed-by", "version", "instance", "name"):
            metadata.get("labels", {}).pop(f"app.kubernetes.io/{tool}", None)
        metadata.get("labels", {}).pop("helm.sh/chart", None)
        metadata.get("annotations", {}).pop("helm.sh/resource-policy", None)
        for empty in ("labels", "annotations"):
            if not metadata.get(empty, True):
                del metadata[empty]
        text = json.dumps(each).replace('"app.kubernetes.io/instance": "ctrlruntime", ', "")
        key = (kind, metadata.get("namespace", ""), metadata["name"])
        assert key not in found, key
        found[key] = json.loads(text)
    return found


ONE: dict[str, Any] = {"accounts": {"bySystem": False}}
"""One Deployment with one account for all systems."""
SAME: dict[str, dict[str, Any]] = {
    "install": {"webhooks": {"enabled": True}},
    "by-system": {},
    "default": ONE,
    "with-webhooks": {**ONE, "webhooks": {"enabled": True}},
    "only-tenancy": {**ONE, "systems": ["tenancy"]},
    "only-cloud": {**ONE, "systems": ["cloud"]},
    "only-cosmos": {**ONE, "systems": ["cosmos"]},
    "namespaced": {
        **ONE,
        "namespaces": made.read_namespaces(ROOT / "config" / "namespaced" / "namespaces.txt"),
    },
}


@pytest.mark.parametrize(("folder", "values"), SAME.items(), ids=SAME)
def test_it_installs_what_kustomize_does(
    folder: str, values: dict[str, Any], rendered: Rendered
) -> None:
    by_helm, by_kustomize = comparable(rendered(values)), comparable(kustomized(folder))
    assert by_helm.keys() == by_kustomize.keys()
    for key, manifest in by_kustomize.items():
        assert by_helm[key] == manifest, key


@pytest.mark.criterion("S-F21")
def test_the_network_policy_restricts_both_ways_and_reaches_no_metadata_service(
    rendered: Rendered,
) -> None:
    for found in (kustomized("network-policy"), rendered({"networkPolicy": {"enabled": True}})):
        specs = [each["spec"] for each in found if each["kind"] == "NetworkPolicy"]
        assert {way for spec in specs for way in spec["policyTypes"]} == {"Ingress", "Egress"}
        rules = [rule for spec in specs for rule in spec.get("egress", ())]
        blocks = [to["ipBlock"] for rule in rules for to in rule.get("to", ()) if "ipBlock" in to]
        assert {"169.254.0.0/16", "fe80::/10"} <= {net for each in blocks for net in each["except"]}
        assert all(rule["ports"] for rule in rules)
        assert all(rule.get("to") or {p["port"] for p in rule["ports"]} == {53} for rule in rules)


@pytest.mark.parametrize(
    ("folder", "values", "kinds"),
    [
        ("guard", {"guard": {"enabled": True}}, {"ValidatingAdmissionPolicy"}),
        ("network-policy", {"networkPolicy": {"enabled": True}}, {"NetworkPolicy"}),
        (
            "prometheus",
            {"metrics": {"serviceMonitor": {"enabled": True}, "rules": {"enabled": True}}},
            {"ServiceMonitor", "PrometheusRule"},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_switched_on_is_what_kustomize_adds(
    folder: str, values: dict[str, Any], kinds: set[str], rendered: Rendered
) -> None:
    theirs, ours = (
        {
            # a folder of config/ has no prefix of names; the chart's are those of config/default
            (each["kind"], each["metadata"]["name"].removeprefix("ctrlruntime-")): each["spec"]
            for each in made
        }
        for made in (
            [each for each in found if each["kind"] in kinds]
            for found in (kustomized(folder), rendered(values))
        )
    )
    assert json.dumps(sorted(ours.items()), sort_keys=True).replace(
        '"app.kubernetes.io/instance": "ctrlruntime", ', ""
    ) == json.dumps(sorted(theirs.items()), sort_keys=True)


@pytest.mark.criterion("SH-32")
def test_members_share_the_tenants_and_are_scaled_by_what_they_serve(rendered: Rendered) -> None:
    def render(**autoscaling: object) -> dict[tuple[str, str], Manifest]:
        values = {"shards": {"enabled": True, "autoscaling": autoscaling}}
        found = rendered({**values, "podDisruptionBudget": {"enabled": True}})
        return {(each["kind"], each["metadata"]["name"]): each for each in found}

    names = {system: f"ctrlruntime-{system}-controller-manager" for system in made.SYSTEMS}
    fixed, scaled = render(), render(enabled=True, maxReplicas=6)
    specs = {system: fixed["Deployment", name]["spec"] for system, name in names.items()}
    sharing = {
        system: "--shards" in spec["template"]["spec"]["containers"][0]["args"]
        for system, spec in specs.items()
    }
    assert sharing == {"tenancy": True, "cloud": True, "cosmos": True}
    replicas = {system: spec["replicas"] for system, spec in specs.items()}
    assert replicas == {"tenancy": 4, "cloud": 4, "cosmos": 4}
    assert fixed["PodDisruptionBudget", names["tenancy"]]["spec"]["maxUnavailable"] == 1
    (rights,) = (
        each["rules"]
        for each in kustomized("sharded")
        if each["kind"] == "Role" and each["metadata"]["name"].endswith("shards-role")
    )
    assert fixed["Role", "ctrlruntime-tenancy-shards-role"]["rules"] == rights
    assert ("HorizontalPodAutoscaler", names["tenancy"]) not in fixed

    assert "replicas" not in scaled["Deployment", names["tenancy"]]["spec"]
    scaler = scaled["HorizontalPodAutoscaler", names["tenancy"]]["spec"]
    assert (scaler["scaleTargetRef"]["name"], scaler["maxReplicas"]) == (names["tenancy"], 6)
    (metric,) = scaler["metrics"]
    page = (ROOT / "docs" / "helm.md").read_text()
    rules = page.partition("```text\nrules:")[2].partition("```")[0]
    (rule,) = yaml.safe_load(rules)["custom"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    served = {f"{each.name}_total" for each in families() if each.kind == "counter"}
    assert rule["seriesQuery"].partition("{")[0] in served


@pytest.mark.criterion("FAULT-B35")
def test_crds_are_kept_unless_asked_otherwise(rendered: Rendered) -> None:
    def policies(values: dict[str, Any]) -> set[str | None]:
        crds = [each for each in rendered(values) if each["kind"] == CRD]
        annotations = (each["metadata"].get("annotations", {}) for each in crds)
        return {found.get("helm.sh/resource-policy") for found in annotations}

    assert policies({}) == {"keep"}
    assert policies({"crds": {"keep": False}}) == {None}
    assert policies({"crds": {"install": False}}) == set()


def test_systems_can_be_combined(rendered: Rendered) -> None:
    found = comparable(rendered({**ONE, "systems": ["cosmos", "tenancy"]}))
    groups = {m["spec"]["group"] for (kind, *_), m in found.items() if kind == CRD}
    operations = "operations.ctrlruntime.dev"
    assert groups == {"cosmos.ctrlruntime.dev", operations, "tenancy.ctrlruntime.dev"}
    rules = found["ClusterRole", "", "ctrlruntime-manager-role"]["rules"]
    assert {g for rule in rules for g in rule["apiGroups"]}.isdisjoint({"cloud.ctrlruntime.dev"})
    assert any("cosmosfullnodes" in rule["resources"] for rule in rules)
    (container,) = found["Deployment", NAMESPACE, "ctrlruntime-controller-manager"]["spec"][
        "template"
    ]["spec"]["containers"]
    assert [a for a in container["args"] if "system" in a] == [
        "--system=cosmos",
        "--system=tenancy",
    ]


def test_a_watched_namespace_may_be_that_of_the_manager(rendered: Rendered) -> None:
    found = comparable(rendered({**ONE, "namespaces": [NAMESPACE]}))
    rules = found["Role", NAMESPACE, "ctrlruntime-manager-role"]["rules"]
    resources = {name for rule in rules for name in rule["resources"]}
    assert {"pods", "tenants", "events"} <= resources


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"system": ["tenancy"]}, "system"),
        ({"systems": ["tenants"]}, "systems.0"),
        ({"image": {"digest": "sha256:abc"}}, "image.digest"),
        ({"namespaces": ["Default"]}, "namespaces.0"),
        ({"args": ["leader-elect"]}, "args.0"),
        (
            {"serviceAccount": {"name": "mine"}},
            "leave serviceAccount.name empty, or set accounts.bySystem=false",
        ),
        ({"perSystem": {"fleet": {}}}, "perSystem"),
        (
            {**ONE, "perSystem": {"cloud": {"args": ["--log-level=debug"]}}},
            "use args and resources",
        ),
        ({"metrics": {"rules": {"runbookBaseURL": "docs"}}}, "runbookBaseURL"),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_meant_is_refused(
    values: dict[str, Any], message: str, rendered: Rendered
) -> None:
    done = rendered.run(values)
    assert done.returncode != 0
    assert message in done.stderr


def test_every_value_is_in_the_schema_and_on_its_page() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert {*schema["properties"]} - {"global"} == {*values}
    page = (ROOT / "docs" / "helm.md").read_text()
    assert {*re.findall(r"^\| `([a-zA-Z]+)", page, re.MULTILINE)} == {*values}


@pytest.mark.criterion("U-14")
def test_the_source_of_the_chart_is_no_chart(helm: str) -> None:
    """What applies a folder of a repository, as Argo CD and Flux do, gets the remedy and not half an installation."""
    done = run(helm, "template", str(ROOT / "charts" / "ctrlruntime-manager"))
    assert done.returncode != 0
    assert "make chart" in done.stderr


@pytest.mark.criterion("U-7")
@pytest.mark.parametrize("more", [(), ("--is-upgrade",)], ids=str)
def test_systems_that_cannot_be_seen_must_be_given(
    helm: str, chart: str, more: tuple[str, ...]
) -> None:
    """An upgrade that is rendered without a cluster would else stop what it does not name."""
    done = run(helm, "template", "ctrlruntime", chart, *more)
    assert done.returncode != 0
    assert "--set systems={tenancy}" in done.stderr
    assert "--set systems={cloud,cosmos,tenancy}" in done.stderr


def test_helm_finds_nothing_to_complain_about(helm: str, chart: str) -> None:
    done = run(helm, "lint", "--strict", chart)
    assert done.returncode == 0, done.stdout


def runbooks(found: list[dict[str, Any]]) -> list[str]:
    (alerts,) = (each for each in found if each["kind"] == "PrometheusRule")
    return [
        rule["annotations"]["runbook_url"]
        for group in alerts["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]


def test_alerts_link_to_the_documentation_by_default(rendered: Rendered) -> None:
    urls = runbooks(rendered({"metrics": {"rules": {"enabled": True}}}))
    assert "https://ctrlruntime.dev/docs/runbooks/ManagerHasNoLeader.html" in urls


def test_image_and_alerts_match_the_values(rendered: Rendered) -> None:
    digest = "sha256:" + "0" * 64
    found = rendered({**EVERYTHING, "image": {"repository": "r.example.com/m", "digest": digest}})
    pods = [e["spec"]["template"]["spec"] for e in found if e["kind"] == "Deployment"]
    images = [container["image"] for pod in pods for container in pod["containers"]]
    assert images == [f"r.example.com/m@{digest}"] * len(made.SYSTEMS)
    urls = runbooks(found)
    assert urls
    assert "https://docs.example.com/docs/runbooks/ManagerHasNoLeader.md" in urls
    assert all(url.startswith("https://docs.example.com/docs/runbooks/") for url in urls)


@pytest.mark.asyncio(loop_scope="module")
async def test_the_real_server_takes_all_that_can_be_switched_on(
    rendered: Rendered, real: Environment, installation: Client
) -> None:
    await real.install_crds(MONITORS, RULES)
    manifests = rendered(EVERYTHING)
    assert {"PodDisruptionBudget", "ServiceMonitor"} <= {each["kind"] for each in manifests}
    for manifest in manifests:
        await accepted(installation, manifest, NAMESPACE)


TENANT: Manifest = {
    "apiVersion": "tenancy.ctrlruntime.dev/v1",
    "kind": "Tenant",
    "metadata": {"name": "kept", "namespace": "default"},
    "spec": {"uid": "kept", "templateRef": "none"},
}


async def served(client: Client) -> Manifest:
    """Make the tenant, as soon as its kind is served: a real server takes a moment after its CRD came."""
    return await eventually_succeeds(lambda: client.create(TENANT), despite=(NotFound, NoKindMatch))


@contextlib.asynccontextmanager
async def server(backend: str, folder: Path) -> AsyncIterator[Environment]:
    """A server of the test's own: the release has its CRDs."""
    users = (administrator("admin"),)
    async with contextlib.AsyncExitStack() as stack:
        if backend == "embedded":
            environment = Environment("embedded-process", users=users, folder=folder)
        else:
            started = kube_apiserver(folder / "kube-apiserver", controller_manager=False)
            shared = await asyncio.to_thread(stack.enter_context, started)
            environment = shared.environment(users=users, folder=folder)
        yield await stack.enter_async_context(environment)


@pytest.mark.criterion("U-7")
@pytest.mark.parametrize("backend", ["embedded", "kube-apiserver"])
async def test_a_release_is_installed_upgraded_and_uninstalled_and_the_tenants_stay(
    backend: str, helm: str, chart: str, tmp_path: Path
) -> None:
    async with server(backend, tmp_path) as environment:
        client = environment.client("admin")
        config = ("--kubeconfig", str(environment.kubeconfig("admin")), "--namespace", NAMESPACE)

        async def run(*arguments: str) -> None:
            process = await asyncio.create_subprocess_exec(
                helm, *arguments, *config,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, "HOME": str(tmp_path), "HELM_CACHE_HOME": str(tmp_path / "helm")},
            )  # fmt: skip
            output, _ = await process.communicate()
            assert process.returncode == 0, output.decode()

        async def deployments() -> dict[str, Any]:
            found: list[Any] = await client.list(DEPLOYMENT, NAMESPACE)
            return {each["metadata"]["name"]: each for each in found}

        async def definitions() -> set[str]:
            found: list[Any] = await client.list(DEFINITION)
            return {each["metadata"]["name"] for each in found}

        await run("install", "ctrlruntime", chart, "--create-namespace")
        assert {*await deployments()} == {"ctrlruntime-tenancy-controller-manager"}
        assert len(await definitions()) == 4
        await run("uninstall", "ctrlruntime")

        one = "accounts.bySystem=false,webhooks.enabled=true"
        await run("install", "ctrlruntime", chart, "--set", one, "--set-json", "systems=[]")
        assert {*await deployments()} == {"ctrlruntime-controller-manager"}
        everything = await definitions()
        tenant = await served(client)
        await run("upgrade", "ctrlruntime", chart, "--set", "webhooks.enabled=true")
        installed = await deployments()
        assert {*installed} == {f"ctrlruntime-{name}-controller-manager" for name in made.SYSTEMS}
        for kind in (SERVICE_ACCOUNT, BINDING, WEBHOOKS):  # nothing of the one account is left
            names = {each["metadata"]["name"] for each in await client.list(kind)}
            assert not names & {"ctrlruntime-controller-manager", *OF_ONE}
        await run("upgrade", "ctrlruntime", chart, "--set", "replicas=3")
        for name, upgraded in (await deployments()).items():
            assert upgraded["metadata"]["uid"] == installed[name]["metadata"]["uid"]
            assert upgraded["spec"]["replicas"] == 3
        await run("upgrade", "ctrlruntime", chart, "--set", "systems={tenancy}")
        assert {*await deployments()} == {"ctrlruntime-tenancy-controller-manager"}
        assert await definitions() == everything
        await run("uninstall", "ctrlruntime")
        assert await deployments() == {}
        left = await client.get(Tenant, "kept", namespace="default")
        assert left.metadata.uid == tenant["metadata"]["uid"]
