"""All manifests of a program, as folders of kustomize: what they hold is applied as it is.

``default`` is the user's: it is written once, and everything else is made anew from the code each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ctrlruntime.api.kinds import Manifest

from .crd import SchemaOptions, file_name
from .deployment import metrics_service, namespace, webhook_service, workload
from .document import to_yaml
from .layout import kustomization
from .output import crd_manifests
from .permissions import roles
from .program import Program, at_namespace, configurations

__all__ = ["OWNED", "Project", "project"]

RBAC = "rbac.authorization.k8s.io"
DEFAULT = "default/kustomization.yaml"
OWNED = (
    "manager/service.yaml",
    "webhook/kustomization.yaml",
    "webhook/manifests.yaml",
    "webhook/service.yaml",
)
"""Files that are removed once the code no longer has what is in them."""


@dataclass(frozen=True, slots=True)
class Project:
    """Files by path: those that are made anew each time, and those that are written where there are none."""

    files: Mapping[str, str]
    once: Mapping[str, str]


def project(program: Program, schema: SchemaOptions | None = None) -> Project:
    """Return all manifests of a program, and what kustomize needs to put them together.

    Raises SetupError where the options do not name what the webhooks need.
    """
    folders: dict[str, dict[str, str]] = {
        "crd": {name: to_yaml(made) for name, made in crds(program, schema).items()},
        "rbac": {name: to_yaml(made) for name, made in rights(program).items()},
        "manager": {name: to_yaml(made) for name, made in running(program).items()},
        "webhook": {name: to_yaml(made) for name, made in called(program).items()},
    }
    folders = {name: files for name, files in folders.items() if files}
    files = {
        f"{folder}/{name}": text for folder in folders for name, text in folders[folder].items()
    }
    for folder, made in folders.items():
        files[f"{folder}/kustomization.yaml"] = kustomization(made)
    files["base/kustomization.yaml"] = kustomization(f"../{folder}" for folder in folders)
    return Project(files, {DEFAULT: _HEAD + kustomization(["../base"])})


_HEAD = """\
# What is applied: `kubectl apply --server-side -k` of this folder. It is written once; patches, images
# and further resources go here. Everything beside it is made anew by `generate all`.
"""


def crds(program: Program, schema: SchemaOptions | None = None) -> dict[str, Manifest]:
    """Return the CRDs by file name, converted by the program's Service where it converts their versions."""
    made = crd_manifests(
        program.found.kinds,
        schema,
        service_name=program.options.webhook.service_name,
        service_namespace=program.namespace,
    )
    return {f"bases/{file_name(crd)}": crd for crd in made}


def rights(program: Program) -> dict[str, list[Manifest]]:
    """Return the account, its roles, and a binding of each, by file name."""
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": program.name, "namespace": program.namespace},
    }
    granted = [
        at_namespace(each, program.namespace) for each in roles(program.found.rules, program.name)
    ]
    found = {
        "service_account.yaml": [account],
        "role.yaml": granted,
        "role_binding.yaml": [_binding(program, role) for role in granted],
    }
    return {
        name: [_labelled(program, each) for each in made] for name, made in found.items() if made
    }


def running(program: Program) -> dict[str, list[Manifest]]:
    """Return the Deployment in its Namespace, and the Service of its metrics, by file name."""
    found = {"manager.yaml": [namespace(program), workload(program)]}
    if (service := metrics_service(program)) is not None:
        found["service.yaml"] = [service]
    return found


def called(program: Program) -> dict[str, list[Manifest]]:
    """Return the webhook configurations and the Service that they call, by file name."""
    found: dict[str, list[Manifest]] = {}
    if made := configurations(program.found):
        found["manifests.yaml"] = [
            _labelled(program, at_namespace(each, program.namespace)) for each in made
        ]
    if (service := webhook_service(program)) is not None:
        found["service.yaml"] = [service]
    return found


def _binding(program: Program, role: Manifest) -> Manifest:
    """Return the binding of a role to the program's account, in the role's namespace."""
    kind = role["kind"]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role["metadata"]["name"]},
        "subjects": [
            {"kind": "ServiceAccount", "name": program.name, "namespace": program.namespace}
        ],
    }


def _labelled(program: Program, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "labels": program.labels}}
