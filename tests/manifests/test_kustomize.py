"""Every kustomization builds, and API servers take every object of it."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cloud import FleetRollout, Instance
from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot, StatefulJob
from apis.fleet import FleetConfig
from apis.fleet.labels import PLANE_NAMESPACE
from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, APIError
from ctrlruntime.envtest import Environment
from manager.manifests import folders as made
from manager.options import RunOptions, mutating_name
from tests.envtest.kubectl.binaries import provisioned
from tests.manifests.conftest import Kubectl
from tests.manifests.installation import (
    ACCOUNT,
    INSTALLER,
    NAMESPACE,
    ROOT,
    Manifest,
    installer,
    kustomized,
    of_kind,
    uninstall,
)

pytestmark = pytest.mark.xdist_group("manifests")

CONFIG = ROOT / "config"
GUARD = "guard"
ADMISSION_POLICIES = (1, 30)
"""The first release of Kubernetes that has them."""
FOLDERS = (
    "crd",
    "rbac",
    "manager",
    "webhook",
    "default",
    GUARD,
    "network-policy",
    "prometheus",
    "samples",
    "with-webhooks",
    "sharded",
    "by-system",
    "install",
    "install-tenancy",
    "install-cloud",
    "install-cosmos",
    "only-tenancy",
    "data-plane",
    "only-cloud",
    "only-cosmos",
    "namespaced",
    "operator",
    "argocd",
)
KINDS: tuple[type[Resource[Any, Any]], ...] = (
    ChangeFreeze,
    Tenant,
    TenantRegistry,
    TenantTemplate,
    FleetRollout,
    Instance,
    CosmosFullNode,
    ScheduledVolumeSnapshot,
    StatefulJob,
    FleetConfig,
)
"""What people write; subresources of an instance are the manager's own."""
DEFINITIONS = "CustomResourceDefinition"


def operator_crd(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the CRD of a kind of the Prometheus operator, with what of its spec is used here."""
    singular = kind.lower()
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{singular}s",
        "singular": singular,
    }
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": DEFINITIONS,
        "metadata": {"name": f"{singular}s.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


MONITORS = operator_crd(
    "ServiceMonitor",
    {
        "type": "object",
        "required": ["endpoints", "selector"],
        "properties": {
            "endpoints": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "port": {"type": "string"},
                        "scheme": {
                            "type": "string",
                            "enum": ["http", "https"],
                        },
                        "bearerTokenFile": {"type": "string"},
                        "tlsConfig": {
                            "type": "object",
                            "properties": {"insecureSkipVerify": {"type": "boolean"}},
                        },
                    },
                },
            },
            "selector": {
                "type": "object",
                "properties": {
                    "matchLabels": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                    }
                },
            },
        },
    },
)
RULE = {
    "type": "object",
    "required": ["expr"],
    "properties": {
        **{name: {"type": "string"} for name in ("alert", "record", "expr", "for")},
        **{
            name: {"type": "object", "additionalProperties": {"type": "string"}}
            for name in ("labels", "annotations")
        },
    },
}
RULES = operator_crd(
    "PrometheusRule",
    {
        "type": "object",
        "properties": {
            "groups": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string"},
                        "interval": {"type": "string"},
                        "rules": {"type": "array", "items": RULE},
                    },
                },
            }
        },
    },
)


def test_every_folder_has_its_kustomization() -> None:
    on_disk = {path.parent.name for path in CONFIG.glob("*/kustomization.yaml")}
    assert on_disk == set(FOLDERS)


def test_every_file_is_in_its_kustomization() -> None:
    for path in CONFIG.rglob("kustomization.yaml"):
        folder = path.parent.relative_to(CONFIG)
        kustomization = yaml.safe_load((CONFIG / folder / "kustomization.yaml").read_text())
        listed = [*kustomization["resources"]]
        listed += [patch["path"] for patch in kustomization.get("patches", ()) if "path" in patch]
        files = {file.name for file in path.parent.glob("*.yaml")} - {path.name}
        folders = {each.parent.name for each in path.parent.glob("*/kustomization.yaml")}
        assert files | folders <= {*listed}, folder


async def accepted(client: Client, manifest: Manifest, namespace: str) -> None:
    """A server takes the object, unknown fields being errors; nothing is stored."""
    metadata = dict(manifest["metadata"])
    if metadata.get("namespace") in {"system", PLANE_NAMESPACE}:  # a dry run makes no namespace
        metadata["namespace"] = namespace
    mapping = await client.mapper.resolve(GroupVersionKind.of(manifest))
    if mapping.namespaced:
        metadata.setdefault("namespace", namespace)
    try:
        await client.create(
            {**manifest, "metadata": metadata}, dry_run=True, field_validation="Strict"
        )
    except AlreadyExists:
        return
    except APIError as error:
        raise AssertionError(f"{manifest['kind']} {metadata['name']}: {error}") from error


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("kustomize")
@pytest.mark.parametrize("folder", FOLDERS)
async def test_the_real_server_takes_every_object(
    folder: str, real: Environment, installation: Client
) -> None:
    if folder == GUARD and real.backend.version < ADMISSION_POLICIES:
        pytest.skip("admission policies came with Kubernetes 1.30")
    await real.install_crds(MONITORS, RULES)
    for manifest in kustomized(folder):
        await accepted(installation, manifest, NAMESPACE)


@pytest.mark.criterion("kustomize")
async def test_a_current_server_has_every_field(tmp_path: Path) -> None:
    """Strict validation refuses what a schema does not have: a slip of the pen does not pass."""
    async with Environment(folder=tmp_path) as environment:
        client = environment.client("admin")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await client.create(namespace)
        await environment.install_crds(MONITORS, RULES, *KINDS)
        for folder in sorted({*FOLDERS} - {GUARD}):  # the embedded server has no admission policies
            for manifest in kustomized(folder):
                await accepted(client, manifest, NAMESPACE)
        wrong = kustomized("manager")[-1]
        wrong["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
        with pytest.raises(AssertionError, match="readinesProbe"):
            await accepted(client, wrong, NAMESPACE)


@pytest.mark.criterion("kustomize")
def test_webhooks_have_the_names_that_the_manager_is_given() -> None:
    made = {(each["kind"], each["metadata"]["name"]): each for each in kustomized("with-webhooks")}
    deployment = made["Deployment", "ctrlruntime-controller-manager"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    told = dict(each[2:].split("=") for each in arguments if "=" in each)
    service = told["webhook-service-name"]
    assert made["Service", service]["metadata"]["namespace"] == NAMESPACE
    validating = told["webhook-configuration"]
    names = {
        "MutatingWebhookConfiguration": mutating_name(validating),
        "ValidatingWebhookConfiguration": validating,
    }
    for kind, name in names.items():
        for webhook in made[kind, name]["webhooks"]:
            called = webhook["clientConfig"]["service"]
            assert (called["name"], called["namespace"]) == (service, NAMESPACE)
    rules = made["ClusterRole", "ctrlruntime-webhook-role"]["rules"]
    assert [rule["resourceNames"] for rule in rules] == [[name] for name in names.values()]


@pytest.mark.criterion("samples")
def test_there_is_a_sample_of_every_kind() -> None:
    samples = kustomized("samples")
    assert {each["kind"] for each in samples} == {kind.gvk().kind for kind in KINDS}
    known = {kind.gvk().kind: kind for kind in KINDS}
    for sample in samples:
        known[sample["kind"]].from_manifest(sample)


@pytest.mark.criterion("generated")
def test_what_is_generated_is_up_to_date() -> None:
    assert made.check(CONFIG) == ""


@pytest.mark.criterion("generated")
def test_a_file_changed_by_hand_is_found(tmp_path: Path) -> None:
    made.generate(tmp_path)
    assert made.check(tmp_path) == ""
    role = tmp_path / "rbac" / "role.yaml"
    role.write_text(role.read_text().replace("- watch", "- '*'", 1))
    assert "-  - '*'" in made.check(tmp_path)


@pytest.mark.criterion("installer")
def test_the_installer_is_what_the_folder_install_builds() -> None:
    command = [str(provisioned()), "kustomize", str(CONFIG / "install")]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert text == INSTALLER.read_text()


DEPLOYMENTS = (ACCOUNT, *(f"ctrlruntime-{name}-controller-manager" for name in made.SYSTEMS))


@pytest.mark.parametrize("name", DEPLOYMENTS)
class TestDeployment:
    def container(self, name: str) -> Manifest:
        found = installer() if name != ACCOUNT else of_kind("Deployment")
        (pod,) = (
            e["spec"]["template"]["spec"]
            for e in found
            if e["metadata"]["name"] == name and e["kind"] == "Deployment"
        )
        (container,) = pod["containers"]
        return {"pod": pod, **container}

    def test_it_is_restricted(self, name: str) -> None:
        found = self.container(name)
        pod = found["pod"]["securityContext"]
        assert pod["runAsNonRoot"] is True
        assert pod["runAsUser"] == 65532
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert found["securityContext"] == {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        namespace = of_kind("Namespace")[0]["metadata"]["labels"]
        assert namespace["pod-security.kubernetes.io/enforce"] == "restricted"

    def test_it_is_given_time_to_end(self, name: str) -> None:
        graceful = RunOptions().manager_options().graceful_shutdown_timeout
        assert self.container(name)["pod"]["terminationGracePeriodSeconds"] > graceful + 10

    def test_it_is_probed_and_bounded(self, name: str) -> None:
        found = self.container(name)
        for probe, path in (
            ("startupProbe", "/healthz"),
            ("livenessProbe", "/healthz"),
            ("readinessProbe", "/readyz"),
        ):
            assert found[probe]["httpGet"] == {"path": path, "port": "probes"}
        assert set(found["resources"]) == {"limits", "requests"}
        ports = {port["name"]: port["containerPort"] for port in found["ports"]}
        assert f"--health-probe-bind-address=:{ports['probes']}" in found["args"]
        assert f"--metrics-bind-address=:{ports['metrics']}" in found["args"]

    async def test_the_manager_understands_its_arguments(self, name: str) -> None:
        arguments = self.container(name)["args"]
        process = await asyncio.create_subprocess_exec(
            str(ROOT / ".venv" / "bin" / "python"),
            *("-m", "manager", *arguments, "--help"),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        answer, _ = await process.communicate()
        assert process.returncode == 0
        for argument in arguments[1:]:
            assert argument.partition("=")[0].encode() in answer


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("installer")
async def test_kubectl_applies_the_installer_and_applies_it_again(
    kubectl: Kubectl, installation: Client
) -> None:
    try:
        said = await kubectl("apply", "-f", str(INSTALLER))
        again = await kubectl("apply", "-f", str(INSTALLER))
    finally:
        await uninstall(installation, installer())
    told = dict(line.rsplit(" ", 1) for line in again.splitlines() if line)
    for system in made.SYSTEMS:
        deployment = f"deployment.apps/ctrlruntime-{system}-controller-manager"
        assert f"{deployment} created" in said
        assert told[deployment] == "unchanged"
        role = f"clusterrole.rbac.authorization.k8s.io/ctrlruntime-{system}-manager-role"
        assert told[role] == "unchanged"
