"""The Job of a run and the Secret with its input. No I/O."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.resources import Owner, RemotePlacement
from internal.cloud import labels as label_keys
from internal.cloud.runs import wire
from internal.cloud.runs.files import INPUT, SEAL_KEY
from internal.cloud.runs.provider import RunOwner, RunRequest

__all__ = [
    "CONTAINER",
    "JOB",
    "POD",
    "SECRET",
    "JobOptions",
    "edited_input",
    "edited_metadata",
    "input_of",
    "is_job_of",
    "job_of",
    "job_reference",
    "owner_from",
]

JOB: Final = GroupVersionKind("batch", "v1", "Job")
POD: Final = GroupVersionKind("", "v1", "Pod")
SECRET: Final = GroupVersionKind("", "v1", "Secret")

CONTAINER: Final = "task"
_LABEL_LENGTH: Final = 63
_LABELS: Final = (
    label_keys.TASK,
    label_keys.RUN_ID,
    label_keys.OWNER_UID,
    label_keys.INSTANCE,
)
_PLACE: Final = "/run/task"
_MESSAGE: Final = "/dev/termination-log"
_READ_ONLY: Final = 0o444


def job_of(
    request: RunRequest, options: JobOptions, placement: RemotePlacement | None = None
) -> Manifest:
    """One Pod, once.

    Its own deadline is the run's: of a Pod that the Job ends nothing would be left to tell what it was at.
    The Job's is for Pods that never get to a node. `placement`: the Job is in another cluster than its owner.
    """
    given = request.input
    owner = given.owner
    labels = _labels(request, placement)
    annotations = {label_keys.OWNER: f"{owner.api_version} {owner.kind} {owner.name}"}
    metadata = {
        "name": request.run_id,
        "namespace": owner.namespace,
        "labels": labels,
        "annotations": annotations | _records(owner, placement),
        **_references(owner, placement),
    }
    template = {
        "metadata": {
            "labels": {**options.labels, **labels},
            "annotations": {**options.annotations, **annotations},
        },
        "spec": _pod(request, options),
    }
    seconds = math.ceil(request.timeout)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "activeDeadlineSeconds": seconds + options.patience,
            "ttlSecondsAfterFinished": options.keep,
            "template": template,
        },
    }


def input_of(
    request: RunRequest,
    job: Manifest,
    data: str,
    seal_key: str,
    placement: RemotePlacement | None = None,
) -> Manifest:
    """Return the Secret that goes with the Job. `data` is the input as JSON."""
    metadata = job["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": _labels(request, placement),
            "ownerReferences": [job_reference(job)],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": {INPUT: data, SEAL_KEY: seal_key},
    }


def edited_metadata(
    job: Manifest, owner: RunOwner, placement: RemotePlacement | None = None
) -> Manifest:
    """Return what of the metadata of a run's Job was changed by hand, as a patch of it; empty: nothing.

    The template of its Pod cannot be changed, and has the same labels and annotation.
    """
    metadata, template = job["metadata"], _template(job)
    annotations = _chosen(template.get("annotations"), (label_keys.OWNER,))
    wanted = {
        "labels": _chosen(template.get("labels"), _label_names(placement)),
        "annotations": annotations | _records(owner, placement),
    }
    found: Manifest = {}
    for field_name, made in wanted.items():
        now = metadata.get(field_name) or {}
        lost = {name: value for name, value in made.items() if now.get(name) != value}
        if lost:
            found[field_name] = lost
    references = metadata.get("ownerReferences") or []
    if placement is None and _reference(owner) not in references:
        others = [each for each in references if each["uid"] != owner.uid]
        found["ownerReferences"] = [*others, _reference(owner)]
    return found


def edited_input(
    secret: Manifest, job: Manifest, placement: RemotePlacement | None = None
) -> Manifest:
    """Return what of the metadata of a run's Secret was changed by hand, as a patch of it.

    Empty: nothing, or the Secret is not that of the Job.
    """
    metadata, made = secret["metadata"], _template(job).get("labels") or {}
    labels, references = metadata.get("labels") or {}, metadata.get("ownerReferences") or []
    wanted = _chosen(made, _label_names(placement))
    uid = job["metadata"]["uid"]
    marks = (label_keys.RUN_ID, label_keys.OWNER_UID)
    if not any(each["uid"] == uid for each in references) and any(
        labels.get(name) != wanted.get(name) for name in marks
    ):
        return {}
    found: Manifest = {}
    if lost := {name: value for name, value in wanted.items() if labels.get(name) != value}:
        found["labels"] = lost
    reference = job_reference(job)
    if reference not in references:
        others = [each for each in references if each["uid"] != uid]
        found["ownerReferences"] = [*others, reference]
    return found


def job_reference(job: Manifest) -> Manifest:
    """Return the owner reference of what goes with a Job."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_job_of(job: Manifest, owner: RunOwner, run_id: str) -> bool:
    """Whether a Job is that of a run, by what its Pods are made with: its own labels may have been edited."""
    labels = _template(job).get("labels") or {}
    return labels.get(label_keys.OWNER_UID) == owner.uid and labels.get(label_keys.RUN_ID) == run_id


def _template(job: Manifest) -> Manifest:
    metadata: Manifest = ((job.get("spec") or {}).get("template") or {}).get("metadata") or {}
    return metadata


def owner_from(metadata: Manifest) -> RunOwner | None:
    """Who drives the run that a Job or Pod with this metadata is of; None if it is of none."""
    words = (metadata.get("annotations") or {}).get(label_keys.OWNER, "").split(" ")
    uid = (metadata.get("labels") or {}).get(label_keys.OWNER_UID)
    if uid is None or len(words) != 3:
        return None
    api_version, kind, name = words
    return RunOwner(
        api_version=api_version,
        kind=kind,
        namespace=metadata["namespace"],
        name=name,
        uid=uid,
    )


def _chosen(found: Mapping[str, str] | None, names: Sequence[str]) -> dict[str, str]:
    return {name: found[name] for name in names if name in found} if found else {}


def _label_names(placement: RemotePlacement | None) -> tuple[str, ...]:
    return _LABELS if placement is None else (*_LABELS, *placement.labels)


def _records(owner: RunOwner, placement: RemotePlacement | None) -> dict[str, str]:
    """Return the annotations that name an owner in another cluster, which no reference can."""
    return {} if placement is None else placement.records(as_owner(owner))


def _references(owner: RunOwner, placement: RemotePlacement | None) -> Manifest:
    return {"ownerReferences": [_reference(owner)]} if placement is None else {}


def as_owner(owner: RunOwner) -> Owner:
    """Return the owner of a run as objects record it."""
    gvk = GroupVersionKind.parse(owner.api_version, owner.kind)
    return Owner(gvk=gvk, namespace=owner.namespace, name=owner.name, uid=owner.uid)


def _labels(request: RunRequest, placement: RemotePlacement | None) -> dict[str, str]:
    given = request.input
    labels = {
        label_keys.TASK: given.task,
        label_keys.RUN_ID: request.run_id,
        label_keys.OWNER_UID: given.owner.uid,
    }
    if len(given.instance) <= _LABEL_LENGTH:  # names may be longer than labels
        labels[label_keys.INSTANCE] = given.instance
    return labels if placement is None else labels | dict(placement.labels)


def _reference(owner: RunOwner) -> Manifest:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _pod(request: RunRequest, options: JobOptions) -> Manifest:
    account = options.service_account
    spec: Manifest = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": math.ceil(request.timeout),
        "terminationGracePeriodSeconds": options.grace,
        "automountServiceAccountToken": bool(account),
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(request, options)],
        "volumes": _volumes(request, options),
    }
    chosen: Manifest = {
        "serviceAccountName": account,
        "nodeSelector": dict(options.node_selector),
        "tolerations": list(options.tolerations),
        "affinity": options.affinity,
        "priorityClassName": options.priority_class,
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
    }
    return spec | {name: value for name, value in chosen.items() if value}


def _container(request: RunRequest, options: JobOptions) -> Manifest:
    environment = {
        wire.INPUT: f"{_PLACE}/input/{INPUT}",
        wire.SEAL_KEY: f"{_PLACE}/input/{SEAL_KEY}",
        wire.SECRETS: f"{_PLACE}/secrets",
        wire.FOLDER: f"{_PLACE}/work",
        wire.RESULT: _MESSAGE,
        "HOME": f"{_PLACE}/work",
        "TMPDIR": f"{_PLACE}/work",
        **options.environment,
    }
    shared = _shared_secrets(options)
    if shared:
        environment[wire.ENVIRONMENT] = ",".join(shared)
        environment[wire.PLAIN] = ",".join(sorted(environment))
    mounts: list[Manifest] = [
        {"name": "input", "mountPath": f"{_PLACE}/input", "readOnly": True},
        {"name": "work", "mountPath": f"{_PLACE}/work"},
    ]
    if request.secrets:
        mounts.append({"name": "secrets", "mountPath": f"{_PLACE}/secrets", "readOnly": True})
    mounts += [
        {"name": name, "mountPath": place, "readOnly": True} for place, (name, _) in shared.items()
    ]
    container: Manifest = {
        "name": CONTAINER,
        "image": options.image,
        "args": [*options.arguments, request.input.task],
        # what is in a value is meant literally, whatever it looks like
        "env": [{"name": k, "value": v.replace("$(", "$$(")} for k, v in environment.items()],
        "terminationMessagePath": _MESSAGE,
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    chosen: Manifest = {
        "command": list(options.command),
        "resources": options.resources,
        "imagePullPolicy": options.image_pull_policy,
    }
    return container | {name: value for name, value in chosen.items() if value}


def _shared_secrets(options: JobOptions) -> dict[str, tuple[str, str]]:
    """Return volume and Secret of what sets variables of every task, by the place it is mounted at.

    Files and no `envFrom`: the task allows a name before anything reads it as a variable.
    """
    return {
        f"{_PLACE}/environment/{secret}": (f"environment-{number}", secret)
        for number, secret in enumerate(dict.fromkeys(options.environment_from))
    }


def _volumes(request: RunRequest, options: JobOptions) -> list[Manifest]:
    """Return a reference to a Secret that may be missing: the task reports better what is missing."""
    volumes: list[Manifest] = [
        {"name": "input", "secret": {"secretName": request.run_id, "defaultMode": _READ_ONLY}},
        {"name": "work", "emptyDir": {}},
    ]
    keys: dict[str, list[str]] = {}
    for ref in request.secrets:
        names = keys.setdefault(ref.name, [])
        if ref.key not in names:
            names.append(ref.key)
    if keys:
        sources = [
            {
                "secret": {
                    "name": name,
                    "optional": True,
                    "items": [{"key": key, "path": f"{name}/{key}"} for key in names],
                }
            }
            for name, names in keys.items()
        ]
        projected = {"sources": sources, "defaultMode": _READ_ONLY}
        volumes.append({"name": "secrets", "projected": projected})
    for name, secret in _shared_secrets(options).values():
        source = {"secretName": secret, "optional": True, "defaultMode": _READ_ONLY}
        volumes.append({"name": name, "secret": source})
    return volumes


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The parts of a Job that an installation decides. Times in seconds."""

    image: str
    """The manager's own image, or one with its program and more tools."""
    command: Sequence[str] = ()
    """The program; empty for the image's own entrypoint."""
    arguments: Sequence[str] = ("task", "run")
    """Before the name of the task."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for every task."""
    environment_from: Sequence[str] = ()
    """Secrets in the namespace of the runs whose keys are more of them; later ones win."""
    service_account: str = ""
    """ServiceAccount in the namespace of the runs, whose token tasks get; empty: they get none."""
    resources: Manifest = field(default_factory=dict)
    """Requests and limits of the container."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Manifest] = ()
    affinity: Manifest = field(default_factory=dict)
    priority_class: str = ""
    image_pull_policy: str = ""
    image_pull_secrets: Sequence[str] = ()
    """Names of Secrets in the namespace of the runs."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the Pods."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the Pods."""
    grace: int = 90
    """How long a cancelled run may take to end."""
    patience: int = 600
    """How long a Pod may wait for its node, on top of the time its run may take."""
    keep: int = 7 * 86400
    """How long Jobs are kept whose manager never came back; it deletes them itself."""
