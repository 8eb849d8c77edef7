"""The Pods of the nodes. Pure."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from apis.cosmos import ChainVersion, CosmosFullNode, PodTemplate, Probes, ProbeStrategy
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.resources import Desired
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.containers import containers, probes_of
from internal.cosmos.fullnode.desired_objects import POD, built, inputs_of, plain
from internal.cosmos.fullnode.init_containers import CHAIN, Images, init_containers
from internal.cosmos.fullnode.metadata import (
    default_labels,
    metadata,
    named,
    node_ordinals,
    node_selector,
)
from internal.cosmos.fullnode.pod_merge import with_theirs
from internal.cosmos.fullnode.service_account_builder import account_of
from internal.cosmos.fullnode.versions import node_version
from internal.cosmos.fullnode.volumes import volumes
from internal.cosmos.invalid import invalid_field
from internal.cosmos.labels import pod_name
from internal.cosmos.names import to_host
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM

Part = dict[str, Any]
USER: Final = 1025
"""User and group that everything in a Pod runs as, and that owns its disk."""
VERSION_CHECKS: Final = (label_keys.VERSION_CHECK, label_keys.VERSION_CHECK_INTERVAL)
"""Containers that read the set."""
_LAST_WORDS: Final = {"terminationMessagePolicy": "FallbackToLogsOnError"}
"""Why an init container failed is in the status of its Pod: a disk without space, for one."""
GRACE_SECONDS: Final = 30
"""What a node has to end, unless its template differs."""


def sidecar_image_of(node_set: CosmosFullNode, default: str) -> str:
    """Return the image beside the nodes: the spec's, else the one recorded when the set was first built, else `default`."""
    template = node_set.spec.pod_template
    return template.sidecar_image or node_set.status.sidecar_image or default


def paused_pods(node_set: CosmosFullNode) -> set[str]:
    """Names of the Pods that are to be away while their disk is copied."""
    return {each.pod_candidate for each in node_set.status.scheduled_snapshot_status.values()}


def is_built(node_set: CosmosFullNode, ordinal: int) -> bool:
    """Whether a node is to run: it is neither disabled nor paused."""
    pod = pod_name(named(node_set), ordinal)
    override = node_set.spec.instance_overrides.get(pod)
    disabled = override is not None and override.disable is not None
    return not disabled and pod not in paused_pods(node_set)


def script_image_of(node_set: CosmosFullNode, default: str, sidecar_image: str) -> str:
    """Return the image that scripts run in: the spec's, else `default`, else the one beside the nodes."""
    return node_set.spec.pod_template.script_image or default or sidecar_image


def build_pods(
    node_set: CosmosFullNode,
    checksums: Mapping[str, str],
    *,
    sidecar_image: str,
    script_image: str = "",
    checks_versions: bool = True,
    own_disks: Collection[int] = (),
) -> Iterator[Desired]:
    """Return the Pod of each node that is to run, by number, each built when it is taken: a template may be as large as an object.

    `checksums`: of the configuration in effect, by name of the Pod. `script_image`: what scripts run in
    where the spec does not say; it is no input, so that another default is held back. `checks_versions`: False leaves
    out the containers that read the set, where Pods cannot. `own_disks`: the nodes whose claim is known to have been
    made empty. Raises UnrecoverableError for a
    template that makes no Pod, naming the field, and if there is no `sidecar_image`.
    """
    if not sidecar_image:
        raise UnrecoverableError(
            "no image is known for the containers beside the nodes: give spec.podTemplate.sidecarImage, "
            "or start the manager with --node-sidecar-image"
        )
    images = Images(sidecar_image, script_image_of(node_set, script_image, sidecar_image))
    return (
        _pod(
            node_set,
            ordinal,
            checksums,
            images,
            checks_versions=checks_versions,
            own_disk=ordinal in own_disks,
        )
        for ordinal in node_ordinals(node_set)
        if is_built(node_set, ordinal)
    )


def _pod(
    node_set: CosmosFullNode,
    ordinal: int,
    checksums: Mapping[str, str],
    images: Images,
    *,
    checks_versions: bool,
    own_disk: bool,
) -> Desired:
    pod = pod_name(named(node_set), ordinal)
    spec = _spec(node_set, ordinal, images, own_disk=own_disk)
    if not checks_versions:
        _drop_version_checks(spec)
    image = _image_of(spec, label_keys.NODE)
    _set_image_variable(spec, image)
    checksum = checksums.get(pod, "")
    labels = default_labels(node_set, ordinal=ordinal, image=image)
    noted = {CONFIG_CHECKSUM: checksum} if checksum else None
    given = node_set.spec.pod_template.metadata
    return built(
        node_set,
        POD,
        {"metadata": metadata(node_set, pod, labels, given, noted), "spec": spec},
        _inputs(node_set, ordinal, checksum, images.sidecar),
        ordinal=ordinal,
        instance=ordinal,
    )


def _spec(node_set: CosmosFullNode, ordinal: int, images: Images, *, own_disk: bool) -> Part:
    """In the order of precedence: the manager's, the template's, the version's, the node's own."""
    template, pod = node_set.spec.pod_template, pod_name(named(node_set), ordinal)
    ours = {
        **_placed(node_set),
        "hostname": to_host(pod),
        "serviceAccountName": account_of(node_set),
        "securityContext": security_context(),
        "initContainers": [
            {**_LAST_WORDS, **each}
            for each in init_containers(node_set, ordinal, images, own_disk=own_disk)
        ],
        "containers": containers(node_set, ordinal, images.sidecar),
        "volumes": volumes(node_set, ordinal),
    }
    theirs = {
        "initContainers": template.init_containers,
        "containers": template.containers,
        "volumes": template.volumes,
    }
    spec = with_theirs(ours, theirs, "spec.podTemplate")
    version = node_version(node_set, pod)
    if version is not None:
        _set_image(spec, "initContainers", CHAIN, version.image)
        set_images(spec, version)
        _set_image(spec, "containers", label_keys.NODE, version.image)
    return _overridden(node_set, pod, spec)


def _overridden(node_set: CosmosFullNode, pod: str, spec: Part) -> Part:
    given = node_set.spec.instance_overrides.get(pod)
    if given is None:
        return spec
    override = Override(image=given.image or None, node_selector=given.node_selector)
    try:
        made = override_pod(
            {"metadata": {"name": pod}, "spec": spec}, override, container=label_keys.NODE
        )
    except ValueError as error:
        raise invalid_field(f"spec.instanceOverrides[{pod}]", str(error)) from error
    if given.image:
        _set_image(made["spec"], "initContainers", CHAIN, given.image)
    return dict(made["spec"])


def _placed(node_set: CosmosFullNode) -> Part:
    """Return the template's fields of the Pod itself."""
    template = node_set.spec.pod_template
    grace = template.termination_grace_period_seconds
    nodes = {"labelSelector": {"matchLabels": node_selector(node_set)}}
    said: Part = {
        "affinity": template.affinity,
        "imagePullSecrets": template.image_pull_secrets,
        "nodeSelector": template.node_selector,
        "priorityClassName": template.priority_class_name,
        "runtimeClassName": template.runtime_class_name,
        "schedulerName": template.scheduler_name,
        "tolerations": template.tolerations,
        "topologySpreadConstraints": [
            {**nodes, **each} for each in template.topology_spread_constraints
        ],
    }
    made = {key: value for key, value in said.items() if value}
    if template.priority is not None:
        made["priority"] = template.priority
    return {**made, "terminationGracePeriodSeconds": GRACE_SECONDS if grace is None else grace}


def security_context() -> Part:
    """Of the Pod: no root user, and the disk's owner is changed only where it has to be."""
    return {
        "runAsUser": USER,
        "runAsGroup": USER,
        "runAsNonRoot": True,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def set_images(spec: Part, version: ChainVersion) -> None:
    """Put the images of a version on the containers that it names; others keep theirs."""
    for place, images in (
        ("initContainers", version.init_containers),
        ("containers", version.containers),
    ):
        for container in spec.get(place) or []:
            if container.get("name") in images:
                container["image"] = images[container["name"]]


def _set_image(spec: Part, place: str, name: str, image: str) -> None:
    for container in spec[place]:
        if container["name"] == name:
            container["image"] = image


def _image_of(spec: Part, name: str) -> str:
    for container in spec["containers"]:
        if container["name"] == name:
            if not container.get("image"):
                raise UnrecoverableError(
                    "spec.podTemplate.image: name an image, or list a version of height 0 in spec.chain.versions"
                )
            return str(container["image"])
    raise invalid_field("spec.podTemplate.containers", f"takes the container {name} away")


def _set_image_variable(spec: Part, image: str) -> None:
    """Set the image of the version check: it compares with the image that this very Pod has."""
    for container in [*spec["initContainers"], *spec["containers"]]:
        if container["name"] in VERSION_CHECKS and "args" in container:
            container["args"] = [*container["args"], f"--image={image}"]


def _drop_version_checks(spec: Part) -> None:
    for place in ("initContainers", "containers"):
        spec[place] = [each for each in spec[place] if each["name"] not in VERSION_CHECKS]


def _inputs(node_set: CosmosFullNode, ordinal: int, checksum: str, sidecar_image: str) -> str:
    """All that the Pod depends on; of the versions only the one that counts."""
    pod, spec = pod_name(named(node_set), ordinal), node_set.spec
    chain = plain(spec.chain, "versions", "config", "app", "database_backend")
    return inputs_of(
        pod,
        ordinal,
        spec.type.value,
        chain,
        spec.chain.config.rpc_listen_address,
        spec.chain.config.p2p_listen_address,
        bool(spec.chain.versions),
        node_version(node_set, pod),
        _template_input(node_set),
        spec.instance_overrides.get(pod),
        spec.service_account_name,
        sidecar_image,
        checksum,
    )


def _template_input(node_set: CosmosFullNode) -> PodTemplate:
    """Return the template with the probe strategy in effect; InSync is left out.

    Managers up to 0.1 had it stored as the default, and so never in the inputs that they recorded.
    """
    effective = probes_of(node_set)
    recorded = None if effective is ProbeStrategy.IN_SYNC else effective
    return node_set.spec.pod_template.model_copy(update={"probes": Probes(strategy=recorded)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Fields of one instance that differ from the template."""

    image: str | None = None
    """Image of the main container."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """In place of the Pod's; empty: the Pod keeps its own."""


def override_pod(manifest: Manifest, override: Override | None, *, container: str) -> Manifest:
    """Return a copy of the Pod with the override.

    `container`: the one whose image is overridden. Raises ValueError if the Pod has none of that name.
    """
    pod = _copy(manifest)
    if override is None:
        return pod
    if override.image is not None:
        _named(pod, container)["image"] = override.image
    if override.node_selector:
        pod["spec"]["nodeSelector"] = dict(override.node_selector)
    return pod


def _named(pod: Manifest, container: str) -> Manifest:
    containers: list[Manifest] = pod["spec"].get("containers") or []
    for each in containers:
        if each["name"] == container:
            return each
    raise ValueError(f"Pod {pod['metadata']['name']!r} has no container {container!r}")


def _copy(manifest: Manifest) -> Manifest:
    copied: Manifest = orjson.loads(orjson.dumps(manifest))
    return copied
