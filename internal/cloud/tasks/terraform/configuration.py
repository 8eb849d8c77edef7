"""A root module: its files for a local binary, and the archive that HCP Terraform takes."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from apis.cloud import InstanceTerraformSpec, TerraformModule
from internal.cloud.tasks.task import TaskRejected
from internal.cloud.tasks.terraform.clusters import PROVIDER, clusters
from internal.cloud.tasks.terraform.inputs import literal, module_inputs, reference

FILE: Final = "main.tf.json"
LEAST_VERSION: Final = ">= 1.3.0"
"""Of Terraform, where the spec names none: the first in which modules may have optional attributes."""


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
