"""A root module: its files for a local binary, the archive for HCP Terraform, and clusters where no module is given."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis.cloud import GCP, GKEPool, InstanceTerraformSpec, TerraformModule
from internal.cloud.keys import instance_key
from internal.cloud.tasks.task import TaskRejected
from internal.cloud.tasks.terraform.inputs import annotated, literal, module_inputs, reference

SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
"""What Google recommends for nodes: access is then a matter of the service account's roles."""
PROVIDER: Final = {"source": "hashicorp/google", "version": ">= 5.0, < 8.0"}
_KEY: Final = 40 - len("-green")
"""Characters of the key in the name of a cluster, which has 40 at most."""
_EXEC: Final = (
    '{apiVersion = "client.authentication.k8s.io/v1beta1", command = "gke-gcloud-auth-plugin", '
    'interactiveMode = "Never", provideClusterInfo = true}'
)
MODULE_NEEDED: Final = "set infrastructure.terraform.module to one that does it, or leave it out"
FILE: Final = "main.tf.json"
LEAST_VERSION: Final = ">= 1.3.0"
"""Of Terraform, where the spec names none: the first in which modules may have optional attributes."""


def clusters(
    namespace: str, instance: str, spec: InstanceTerraformSpec, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return provider, clusters, node pools and outputs. Raises TaskRejected for what takes a module."""
    _refuse_what_takes_a_module(spec, annotations)
    gcp = spec.infrastructure.gcp
    pools = {} if gcp is None else _pools(gcp)
    if gcp is None or not pools:
        raise TaskRejected(
            "nothing to build: set infrastructure.terraform.module, or a cluster in"
            " infrastructure.gcp.gke"
        )
    return {
        "provider": {"google": _provider(gcp)},
        "resource": {
            "google_container_cluster": {c: _cluster(namespace, instance, c, gcp) for c in pools},
            "google_container_node_pool": {c: _node_pool(c, p) for c, p in pools.items()},
        },
        "output": _outputs(list(pools), gcp),
    }


def _refuse_what_takes_a_module(
    spec: InstanceTerraformSpec, annotations: Mapping[str, str]
) -> None:
    infrastructure = spec.infrastructure
    asked = {
        "a private code host": infrastructure.private_code_host is not None
        and infrastructure.private_code_host.enabled,
        "private DNS": infrastructure.private_dns is not None
        and bool(infrastructure.private_dns.routes),
        "an annotation for CMEK or Cloud SQL": any(
            value is not False for value in annotated(annotations).values()
        ),
    }
    for what, there in asked.items():
        if there:
            raise TaskRejected(f"{what} takes a Terraform module: {MODULE_NEEDED}")


def _pools(gcp: GCP) -> dict[str, GKEPool]:
    both = (("blue", gcp.gke.blue), ("green", gcp.gke.green))
    return {color: pool for color, pool in both if pool is not None}


def _provider(gcp: GCP) -> dict[str, Any]:
    found = {"zone": literal(gcp.zone)}
    return found if gcp.project_id is None else {**found, "project": literal(gcp.project_id)}


def _cluster(namespace: str, instance: str, color: str, gcp: GCP) -> dict[str, Any]:
    return {
        "name": literal(f"{instance_key(namespace, instance, limit=_KEY)}-{color}"),
        "location": literal(gcp.zone),
        "remove_default_node_pool": True,
        "initial_node_count": 1,
        "deletion_protection": False,
        "resource_labels": {"instance": literal(instance_key(namespace, instance))},
    }


def _node_pool(color: str, pool: GKEPool) -> dict[str, Any]:
    scopes = dict.fromkeys([*SCOPES, *pool.additional_oauth_scopes])
    return {
        "name": "main",
        "cluster": reference(f"google_container_cluster.{color}.id"),
        "node_count": 1,
        "node_config": {
            "machine_type": literal(pool.machine_type),
            "oauth_scopes": [literal(scope) for scope in scopes],
        },
    }


def _outputs(colors: list[str], gcp: GCP) -> dict[str, Any]:
    names = [reference(f"google_container_cluster.{color}.name") for color in colors]
    region = gcp.zone.rpartition("-")[0] or gcp.zone
    found: dict[str, Any] = {
        "project_id": {"value": reference(f"google_container_cluster.{colors[0]}.project")},
        "region": {"value": literal(region)},
        "gke_clusters": {"value": names},
        "kubeconfig": _kubeconfig(colors[0]),
    }
    if len(colors) == 2:
        found[f"kubeconfig_{colors[1]}"] = _kubeconfig(colors[1])
    return found


def _kubeconfig(color: str) -> dict[str, Any]:
    """Open the cluster as whoever the task that uses it is to Google; hold no key itself."""
    cluster = f"google_container_cluster.{color}"
    server = f"https://${{{cluster}.endpoint}}"
    authority = f"{cluster}.master_auth[0].cluster_ca_certificate"
    document = (
        'jsonencode({apiVersion = "v1", kind = "Config", current-context = "main", '
        'contexts = [{name = "main", context = {cluster = "main", user = "main"}}], '
        f'clusters = [{{name = "main", cluster = {{server = "{server}", '
        f"certificate-authority-data = {authority}}}}}], "
        f'users = [{{name = "main", user = {{exec = {_EXEC}}}}}]}})'
    )
    return {"value": reference(document), "sensitive": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A root module, and what it passes on."""

    document: Mapping[str, Any]
    """The content of `main.tf.json`."""

    @property
    def outputs(self) -> frozenset[str]:
        """Names of all outputs."""
        return frozenset(self.document.get("output", {}))

    @property
    def sensitive(self) -> frozenset[str]:
        """Names of the outputs that must not be seen."""
        outputs = self.document.get("output", {})
        return frozenset(name for name, output in outputs.items() if output.get("sensitive"))

    def files(self) -> dict[str, bytes]:
        """Return the files by name. The same spec gives the same bytes."""
        options = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        return {FILE: orjson.dumps(self.document, option=options)}


def configuration(
    namespace: str,
    instance: str,
    spec: InstanceTerraformSpec,
    annotations: Mapping[str, str],
    backend: Mapping[str, Any] | None = None,
) -> Configuration:
    """Return the configuration of an instance. Raises TaskRejected where the spec cannot be rendered.

    `backend` is the backend block for runs of a local binary; HCP Terraform takes none.
    """
    settings = spec.infrastructure.terraform
    module = None if settings is None else settings.module
    wanted = None if settings is None else settings.terraform_version
    terraform: dict[str, Any] = {"required_version": literal(wanted or LEAST_VERSION)}
    if backend is not None:
        terraform["backend"] = backend
    if module is None:
        terraform["required_providers"] = {"google": PROVIDER}
        rest = clusters(namespace, instance, spec, annotations)
    else:
        rest = _module(module, module_inputs(instance, spec, annotations))
    return Configuration(document={"terraform": terraform, **rest})


def _module(module: TerraformModule, inputs: Mapping[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = {"source": literal(module.source), **literal(inputs)}
    if module.version is not None:
        block["version"] = literal(module.version)
    found: dict[str, Any] = {"module": {"instance": block}}
    outputs = {name: _output(name) for name in module.outputs}
    outputs |= {name: {**_output(name), "sensitive": True} for name in module.sensitive_outputs}
    if outputs:
        found["output"] = outputs
    return found


def _output(name: str) -> dict[str, Any]:
    if not name.isidentifier():
        raise TaskRejected(f"module.outputs: {name!r} is no name of an output")
    return {"value": reference(f"module.instance.{name}")}


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return the same files give the same bytes: sorted, without times, owners and the name of a machine."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name])
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(files[name]))
    return packed.getvalue()
