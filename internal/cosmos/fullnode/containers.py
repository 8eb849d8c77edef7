"""The containers of a node's Pod. Pure."""

from typing import Any, Final

from apis.cosmos import CosmosFullNode, FullNodeType, ProbeStrategy
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.ports import container_ports, rpc_port
from internal.cosmos.fullnode.volumes import (
    WORK,
    chain_home,
    environment,
    node_mounts,
    watching_mounts,
)
from internal.cosmos.labels import pod_name

Part = dict[str, Any]
SIDECAR: Final[Part] = {
    "resources": {"requests": {"cpu": "5m", "memory": "64Mi"}},
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    },
}
"""What containers of the sidecar's image have in common."""
_SLEEP_FIRST = 'sleep "$0" && exec "$@"'


def containers(node_set: CosmosFullNode, ordinal: int, sidecar_image: str) -> list[Part]:
    """Return the node first, then those beside it."""
    made = [_node(node_set), _healthcheck(node_set, sidecar_image)]
    if node_set.spec.chain.versions:
        made.append(
            {
                "name": label_keys.VERSION_CHECK_INTERVAL,
                "image": sidecar_image,
                "args": version_check_arguments(node_set, ordinal),
                "volumeMounts": watching_mounts(node_set),
                **pulled(node_set),
                **SIDECAR,
            }
        )
    return made


def pulled(node_set: CosmosFullNode) -> Part:
    """When the image is pulled, if the template sets it."""
    policy = node_set.spec.pod_template.image_pull_policy
    return {"imagePullPolicy": policy} if policy else {}


def image_of(node_set: CosmosFullNode) -> Part:
    """Return the template's image, if it names one; versions go over it."""
    image = node_set.spec.pod_template.image
    return {"image": image} if image else {}


def version_check_arguments(node_set: CosmosFullNode, ordinal: int) -> list[str]:
    """Arguments of the version check. The image is added once it is known."""
    return [
        "node",
        "version-check",
        f"--namespace={node_set.metadata.namespace}",
        f"--node-set={node_set.metadata.name}",
        f"--pod={pod_name(node_set.metadata.name or '', ordinal)}",
        f"--home={chain_home(node_set)}",
        f"--rpc-url=http://127.0.0.1:{rpc_port(node_set)}",
    ]


def _node(node_set: CosmosFullNode) -> Part:
    template = node_set.spec.pod_template
    made: Part = {
        "name": label_keys.NODE,
        **image_of(node_set),
        **_start(node_set),
        "env": environment(node_set),
        "ports": container_ports(node_set),
        "volumeMounts": node_mounts(node_set),
        "workingDir": WORK,
        **pulled(node_set),
    }
    if template.resources:
        made["resources"] = template.resources
    if probes_of(node_set) is not ProbeStrategy.NONE:
        made["readinessProbe"] = _probe(label_keys.RPC_PORT, failures=5)
    return made


def _healthcheck(node_set: CosmosFullNode, sidecar_image: str) -> Part:
    made: Part = {
        "name": label_keys.HEALTHCHECK,
        "image": sidecar_image,
        "args": [
            "node",
            "healthcheck",
            f"--rpc-url=http://127.0.0.1:{rpc_port(node_set)}",
            f"--bind-address=:{label_keys.HEALTH_PORT}",
        ],
        "ports": [
            {"name": label_keys.HEALTH, "containerPort": label_keys.HEALTH_PORT, "protocol": "TCP"}
        ],
        "volumeMounts": watching_mounts(node_set),
        **pulled(node_set),
        **SIDECAR,
    }
    if probes_of(node_set) is ProbeStrategy.IN_SYNC:
        made["readinessProbe"] = _probe(label_keys.HEALTH, failures=3)
    return made


def probes_of(node_set: CosmosFullNode) -> ProbeStrategy:
    """Return what makes a Pod ready: the spec's strategy, else InSync, and for a sentry no probe.

    A signer connects to a sentry through a Service, and a sentry ends without its signer: where that Service
    leads to ready Pods alone, the sentry must not have to be ready first.
    """
    usual = (
        ProbeStrategy.NONE if node_set.spec.type is FullNodeType.SENTRY else ProbeStrategy.IN_SYNC
    )
    return node_set.spec.pod_template.probes.strategy or usual


def _probe(port: str, *, failures: int) -> Part:
    return {
        "httpGet": {"path": "/health", "port": port, "scheme": "HTTP"},
        "initialDelaySeconds": 1,
        "timeoutSeconds": 10,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _start(node_set: CosmosFullNode) -> Part:
    """How the node is started; a sentry waits first, so that a signer that lost it has time to go."""
    chain = node_set.spec.chain
    arguments = start_arguments(node_set)
    if node_set.spec.type is FullNodeType.SENTRY and chain.privval_sleep_seconds > 0:
        seconds = str(chain.privval_sleep_seconds)
        command = ["sh", "-c", _SLEEP_FIRST, seconds]
        return {"command": command, "args": [chain.binary, *arguments]}
    return {"command": [chain.binary], "args": arguments}


def start_arguments(node_set: CosmosFullNode) -> list[str]:
    """Arguments of the chain's binary."""
    chain = node_set.spec.chain
    arguments = ["start", "--home", chain_home(node_set)]
    if chain.skip_invariants:
        arguments.append("--x-crisis-skip-assert-invariants")
    if chain.log_level is not None:
        arguments += ["--log_level", chain.log_level.value]
    if chain.log_format is not None:
        arguments += ["--log_format", chain.log_format.value]
    return [*arguments, *chain.additional_start_args]
