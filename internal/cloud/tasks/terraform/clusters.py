"""The clusters of an instance that has no module: the google provider's resources as they are."""

from collections.abc import Mapping
from typing import Any, Final

from apis.cloud import GCP, GKEPool, InstanceTerraformSpec
from internal.cloud.keys import instance_key
from internal.cloud.tasks.task import TaskRejected
from internal.cloud.tasks.terraform.inputs import annotated, literal, reference

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
