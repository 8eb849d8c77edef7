"""An OLM bundle of what dist/install-all.yaml installs: a Deployment and an account for each system, without webhooks.

python hack/bundle_files.py FOLDER    writes FOLDER/manifests, FOLDER/metadata, FOLDER/tests and FOLDER/bundle.Dockerfile

OLM makes the namespace, the service account and the bindings itself, from the rights in the ClusterServiceVersion.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

import ctrlruntime
from ctrlruntime.generate import to_yaml

ROOT: Final = Path(__file__).parents[1]
NAME: Final = "ctrlruntime-manager"
CHANNEL: Final = "beta"
RBAC: Final = "rbac.authorization.k8s.io/v1"
BY_OLM: Final = frozenset({"Namespace", "ServiceAccount", "Deployment", "CustomResourceDefinition"})
CREATES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "ChangeFreeze": (
        ("TenantRegistry", "tenancy.ctrlruntime.dev/v1"),
        ("Instance", "cloud.ctrlruntime.dev/v1"),
        ("CosmosFullNode", "cosmos.ctrlruntime.dev/v1"),
    ),
    "CosmosFullNode": (
        ("Pod", "v1"),
        ("PersistentVolumeClaim", "v1"),
        ("Service", "v1"),
        ("ConfigMap", "v1"),
        ("Secret", "v1"),
    ),
    "FleetConfig": (("Deployment", "apps/v1"), ("StatefulSet", "apps/v1"), ("Service", "v1")),
    "FleetRollout": (("Instance", "cloud.ctrlruntime.dev/v1"),),
    "Instance": (
        ("InstanceTerraform", "cloud.ctrlruntime.dev/v1"),
        ("InstanceKubernetes", "cloud.ctrlruntime.dev/v1"),
        ("InstanceInvariants", "cloud.ctrlruntime.dev/v1"),
        ("UpgradeInstanceTask", "cloud.ctrlruntime.dev/v1"),
    ),
    "InstanceInvariants": (("Job", "batch/v1"),),
    "InstanceKubernetes": (("Job", "batch/v1"), ("ConfigMap", "v1"), ("Secret", "v1")),
    "InstanceKubernetesPVC": (("Job", "batch/v1"),),
    "InstanceTerraform": (("Job", "batch/v1"), ("Secret", "v1")),
    "ScheduledVolumeSnapshot": (("VolumeSnapshot", "snapshot.storage.k8s.io/v1"),),
    "StatefulJob": (("Job", "batch/v1"), ("PersistentVolumeClaim", "v1")),
    "Tenant": (("Namespace", "v1"), ("Deployment", "apps/v1"), ("Service", "v1"), ("Secret", "v1")),
    "TenantRegistry": (("Tenant", "tenancy.ctrlruntime.dev/v1"),),
    "TenantTemplate": (("ControllerRevision", "apps/v1"),),
    "UpgradeInstanceTask": (("Job", "batch/v1"),),
}
"""What each kind leads to, by kind and version: consoles list it beside the object."""
ICON: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="12" fill="#1f4b7a"/>'
    '<path d="M20 18v28M32 18v28M44 18v28" stroke="#fff" stroke-width="6" stroke-linecap="round"/></svg>'
)

Manifest = dict[str, Any]


def main(installation: Iterable[Manifest], folder: Path) -> None:
    """Write the bundle in place of one that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    objects = list(installation)
    crds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    files = {f"manifests/{NAME}.clusterserviceversion.yaml": csv(objects)}
    files |= {f"manifests/{crd['metadata']['name']}.yaml": crd for crd in crds}
    files |= {f"manifests/{_file_name(each)}": each for each in _further(objects)}
    files["metadata/annotations.yaml"] = {"annotations": bundle_annotations()}
    files["tests/scorecard/config.yaml"] = _scorecard()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_yaml([content]))
    (folder / "bundle.Dockerfile").write_text(_dockerfile())


def csv(objects: list[Manifest]) -> Manifest:
    """Return the ClusterServiceVersion: what OLM installs, and what a console shows of it."""
    deployments = [each for each in objects if each["kind"] == "Deployment"]
    image = deployments[0]["spec"]["template"]["spec"]["containers"][0]["image"]
    crds = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": f"{NAME}.v{ctrlruntime.__version__}",
            "namespace": "placeholder",
            "annotations": {
                "alm-examples": json.dumps(_samples(), indent=2),
                "capabilities": "Seamless Upgrades",
                "categories": "Developer Tools, Integration & Delivery",
                "containerImage": image,
                "description": "Fleets of single-tenant deployments: tenants from SQL rows, instances driven by tasks, stateful nodes.",
                "repository": "https://ctrlruntime.dev/source",
                "support": "The ctrlruntime maintainers",
                "operatorframework.io/suggested-namespace": "ctrlruntime-system",
            },
        },
        "spec": {
            "displayName": "ctrlruntime manager",
            "description": _description(),
            "version": ctrlruntime.__version__,
            "minKubeVersion": "1.27.0",
            "maturity": CHANNEL,
            "provider": {"name": "The ctrlruntime maintainers", "url": "https://ctrlruntime.dev"},
            "maintainers": [
                {"name": "The ctrlruntime maintainers", "email": "maintainers@ctrlruntime.dev"}
            ],
            "keywords": ["controller", "operator", "tenants", "fleet"],
            "links": [
                {"name": "Documentation", "url": "https://ctrlruntime.dev/docs"},
                {"name": "Source", "url": "https://ctrlruntime.dev/source"},
            ],
            "icon": [
                {
                    "base64data": base64.b64encode(ICON.encode()).decode(),
                    "mediatype": "image/svg+xml",
                }
            ],
            "installModes": [
                {"type": mode, "supported": mode == "AllNamespaces"}
                for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
            ],
            "install": {"strategy": "deployment", "spec": _install(objects, deployments)},
            "customresourcedefinitions": {"owned": [_owned(crd) for crd in crds]},
            "relatedImages": [{"name": "manager", "image": image}],
        },
    }


def bundle_annotations() -> dict[str, str]:
    """Return the annotations of the bundle, which are the labels of its image as well."""
    prefix = "operators.operatorframework.io"
    return {
        f"{prefix}.bundle.mediatype.v1": "registry+v1",
        f"{prefix}.bundle.manifests.v1": "manifests/",
        f"{prefix}.bundle.metadata.v1": "metadata/",
        f"{prefix}.bundle.package.v1": NAME,
        f"{prefix}.bundle.channels.v1": CHANNEL,
        f"{prefix}.bundle.channel.default.v1": CHANNEL,
        f"{prefix}.test.mediatype.v1": "scorecard+v1",
        f"{prefix}.test.config.v1": "tests/scorecard/",
    }


def _install(objects: list[Manifest], deployments: list[Manifest]) -> Manifest:
    accounts = [_account(each) for each in deployments]
    return {
        part: [
            {"serviceAccountName": each, "rules": _bound(objects, kind, each)} for each in accounts
        ]
        for part, kind in (("clusterPermissions", "ClusterRole"), ("permissions", "Role"))
    } | {
        "deployments": [
            {
                "name": each["metadata"]["name"],
                "label": each["metadata"]["labels"],
                "spec": each["spec"],
            }
            for each in deployments
        ],
    }


def _account(deployment: Manifest) -> str:
    return str(deployment["spec"]["template"]["spec"]["serviceAccountName"])


def _bound(objects: list[Manifest], kind: str, account: str) -> list[Manifest]:
    """Return the rules of the roles of a kind that the account has; an aggregated one stays a role."""
    names = {
        each["roleRef"]["name"]
        for each in objects
        if each["kind"].endswith("RoleBinding")
        and each["roleRef"]["kind"] == kind
        and any(subject["name"] == account for subject in each["subjects"])
    }
    return [
        rule
        for each in objects
        if each["kind"] == kind
        and each["metadata"]["name"] in names
        and "aggregationRule" not in each
        for rule in each["rules"]
    ]


def _further(objects: list[Manifest]) -> Iterator[Manifest]:
    """Yield what OLM takes over as it is: Services, ClusterRoles that are for people or aggregated."""
    accounts = {_account(each) for each in objects if each["kind"] == "Deployment"}
    bindings = [each for each in objects if each["kind"].endswith("RoleBinding")]
    inlined = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in bindings
        if any(subject["name"] in accounts for subject in each["subjects"])
    }
    for each in objects:
        key = (each["kind"], each["metadata"]["name"])
        aggregated = "aggregationRule" in each
        if each["kind"] in BY_OLM or (key in inlined and not aggregated):
            continue
        if each in bindings and not _aggregated(objects, each["roleRef"]["name"]):
            continue
        yield each


def _aggregated(objects: list[Manifest], name: str) -> bool:
    return any("aggregationRule" in each for each in objects if each["metadata"]["name"] == name)


def _owned(crd: Manifest) -> Manifest:
    names = crd["spec"]["names"]
    (version,) = (each for each in crd["spec"]["versions"] if each["served"])
    schema = version["schema"]["openAPIV3Schema"]
    return {
        "name": crd["metadata"]["name"],
        "version": version["name"],
        "kind": names["kind"],
        "displayName": _words(names["kind"]),
        "description": _first(schema.get("description", names["kind"])),
        "resources": [
            {"name": "", "kind": kind, "version": version}
            for kind, version in CREATES[names["kind"]]
        ],
        "specDescriptors": list(_descriptors(schema, "spec")),
        "statusDescriptors": list(_descriptors(schema, "status")),
    }


def _descriptors(schema: Manifest, part: str) -> Iterator[Manifest]:
    properties = schema["properties"].get(part, {}).get("properties", {})
    for name, field in sorted(properties.items()):
        described = {
            "path": name,
            "displayName": _words(name),
            "description": _first(field.get("description") or _words(name)),
        }
        if name == "conditions":
            described["x-descriptors"] = ["urn:alm:descriptor:io.kubernetes.conditions"]
        yield described


def _words(name: str) -> str:
    """Return a name in camel case as a title: `maxUnavailable` is Max Unavailable."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return " ".join(part if part.isupper() else part.capitalize() for part in parts)


def _first(text: str) -> str:
    """Return the first sentence."""
    return re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]


def _samples() -> list[Manifest]:
    """Return a sample of each kind: the first by file name that is called as the kind."""
    folder = ROOT / "config" / "samples"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    found: dict[str, Manifest] = {}
    for name in listed:
        for each in yaml.safe_load_all((folder / name).read_text()):
            if each and each["kind"] in CREATES:
                found.setdefault(each["kind"], each)
    return list(found.values())


def _description() -> str:
    return """An operator for fleets of single-tenant deployments.

* **Tenancy**: rows of a SQL table become tenants; each tenant's resources are rendered from a template and applied in order.
* **Cloud**: an Instance is created, upgraded and deleted by tasks that run as Jobs: Terraform, manifests, invariants.
* **Cosmos**: stateful nodes of a chain, with snapshots and jobs on their data.

Templates may use kinds that the manager has no rights to at first: label a ClusterRole with
`tenancy.ctrlruntime.dev/aggregate-to-manager: "true"`. Deleting this operator leaves the CRDs, and with them every tenant.
"""


def _scorecard() -> Manifest:
    image = "quay.io/operator-framework/scorecard-test:v1.42.0"
    checks = {
        "basic": ["basic-check-spec"],
        "olm": [
            "olm-bundle-validation",
            "olm-crds-have-validation",
            "olm-crds-have-resources",
            "olm-spec-descriptors",
            "olm-status-descriptors",
        ],
    }
    tests = [
        {
            "entrypoint": ["scorecard-test", name],
            "image": image,
            "labels": {"suite": suite, "test": f"{name}-test"},
            "storage": {"spec": {"mountPath": {}}},
        }
        for suite, names in checks.items()
        for name in names
    ]
    return {
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [{"parallel": True, "tests": tests}],
        "storage": {"spec": {"mountPath": {}}},
    }


def _dockerfile() -> str:
    labels = "\n".join(f"LABEL {name}={value}" for name, value in bundle_annotations().items())
    copies = "COPY manifests /manifests/\nCOPY metadata /metadata/\nCOPY tests/scorecard /tests/scorecard/\n"
    return f"FROM scratch\n\n{labels}\n\n{copies}"


def _file_name(obj: Manifest) -> str:
    group = obj["apiVersion"].partition("/")[0].partition(".")[0]
    return f"{obj['metadata']['name']}_{group}_{obj['kind'].lower()}.yaml"


if __name__ == "__main__":
    main((each for each in yaml.safe_load_all(sys.stdin) if each), Path(sys.argv[1]))
