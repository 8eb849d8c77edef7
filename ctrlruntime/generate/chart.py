"""The same manifests as a Helm chart: what differs between installations is a value."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ctrlruntime.api.kinds import Manifest

from .crd import SchemaOptions
from .document import to_yaml
from .program import Program
from .project import Project, called, crds, rights, running

__all__ = ["CHART_OWNED", "chart"]

WEBHOOKS = "templates/webhook.yaml"
CHART_OWNED = ("templates/crds.yaml", WEBHOOKS)
"""Templates that are removed once the code no longer has what is in them."""

NAMESPACE = "RELEASE-NAMESPACE"
"""Stands for the release's namespace until the text is made; no object can be called so."""


def chart(program: Program, schema: SchemaOptions | None = None) -> Project:
    """Return the files of the chart; Chart.yaml and values.yaml are the user's once they exist.

    CRDs are templates, so that an upgrade changes them, and are kept when the release goes.
    """
    fixed = program.options.webhook.secret_namespace if program.found.serves else ""
    placed = program if fixed else replace(program, namespace=NAMESPACE)
    texts = {
        "crds": to_yaml([_kept(each) for each in crds(placed, schema).values()]),
        "rbac": to_yaml(_all(rights(placed))),
        "manager": to_yaml([_with_values(each) for each in _all(running(placed))]),
        "webhook": to_yaml(_all(called(placed))),
    }
    files = {f"templates/{name}.yaml": _template(text) for name, text in texts.items() if text}
    if fixed:
        files["templates/manager.yaml"] = _only_in(fixed) + files["templates/manager.yaml"]
    files["values.schema.json"] = json.dumps(_schema(), indent=2) + "\n"
    about = {"apiVersion": "v2", "name": program.name, "type": "application"}
    described = {"description": f"The controllers of {program.name}.", "version": "0.1.0"}
    return Project(
        files,
        {
            "Chart.yaml": to_yaml({**about, **described, "appVersion": "0.1.0"}),
            "values.yaml": _values(program),
        },
    )


VALUES: dict[str, tuple[str, str]] = {
    "imagePullPolicy": ("string", "IfNotPresent"),
    "imagePullSecrets": ("array", "[]"),
    "env": ("array", "[]"),
    "args": ("array", "[]"),
    "podAnnotations": ("object", "{}"),
    "nodeSelector": ("object", "{}"),
    "tolerations": ("array", "[]"),
    "affinity": ("object", "{}"),
}
"""The type and default of each value that goes into the Pod as it is."""


def _values(program: Program) -> str:
    lines = [
        f"image: {json.dumps(program.image)}",
        f"replicas: {2 if program.options.leader_election else 1}",
        "resources:\n  requests: {cpu: 50m, memory: 128Mi}",
        *(f"{name}: {default}" for name, (_, default) in VALUES.items()),
    ]
    return "".join(f"{line}\n" for line in lines)


def _schema() -> dict[str, Any]:
    """Return the schema by which Helm refuses values of other names."""
    properties: dict[str, Any] = {name: {"type": kind} for name, (kind, _) in VALUES.items()}
    properties |= {
        "image": {"type": "string", "minLength": 1},
        "replicas": {"type": "integer", "minimum": 0},
        "resources": {"type": "object"},
        "global": {"type": "object"},
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _with_values(manifest: Manifest) -> Manifest:
    """Return the Deployment with marks where values go."""
    if manifest["kind"] != "Deployment":
        return manifest
    spec = manifest["spec"]
    template, pod = spec["template"], spec["template"]["spec"]
    (container,) = pod["containers"]
    container = {name: value for name, value in container.items() if name != "resources"}
    for name in ("image", "imagePullPolicy", "resources", "env", "args"):
        container[name] = _mark(name)
    pod = {**pod, "containers": [container]}
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
        pod[name] = _mark(name)
    metadata = {**template["metadata"], "annotations": _mark("podAnnotations")}
    template = {**template, "metadata": metadata, "spec": pod}
    return {**manifest, "spec": {**spec, "replicas": _mark("replicas"), "template": template}}


def _mark(value: str) -> str:
    return f"VALUE-OF-{value}-"


def _template(text: str) -> str:
    """Return the text with its own braces escaped and the marks in place of values."""
    text = text.replace("{{", "{{ `{{` }}")
    text = text.replace(f" {NAMESPACE}\n", " {{ toJson .Release.Namespace }}\n")
    text = text.replace(NAMESPACE, "{{ .Release.Namespace }}")
    for name in ("image", "replicas", "resources", *VALUES):
        text = text.replace(_mark(name), f"{{{{ toJson .Values.{name} }}}}")
    return text


def _kept(manifest: Manifest) -> Manifest:
    """Return a CRD that stays when the release goes."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), "helm.sh/resource-policy": "keep"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _only_in(namespace: str) -> str:
    message = f"the program keeps its certificates in {namespace}: install it there"
    return f'{{{{- if ne .Release.Namespace "{namespace}" }}}}{{{{ fail "{message}" }}}}{{{{ end }}}}\n'


def _all(files: dict[str, list[Manifest]]) -> Iterable[Manifest]:
    """Return the objects that a release has: its namespace is Helm's."""
    return [each for made in files.values() for each in made if each["kind"] != "Namespace"]
