"""What of an instance its Terraform module receives, and how Terraform takes it word for word."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apis.cloud import InstanceTerraformSpec
from ctrlruntime.api import ApiModel
from ctrlruntime.json import Json
from internal.cloud.labels import CLOUDSQL_MODE, CMEK_ALGORITHM, ENABLE_CMEK
from internal.cloud.tasks.task import TaskRejected

PLACE: Final = "terraform_workspace"
"""Output of a run of HCP Terraform: organization and workspace that the infrastructure is in."""
RESERVED: Final = frozenset(
    {"source", "version", "count", "for_each", "providers", "depends_on", "lifecycle", "locals"}
)
"""Names that mean something else in a module block, or may one day.
https://developer.hashicorp.com/terraform/language/values/variables, Declaring an Input Variable."""
_MODES: Final = ("blueOnly", "bluePrimary", "greenOnly", "greenPrimary")


def literal(value: object) -> Json:
    """Return the value so that Terraform takes it word for word: no text, and no key, is interpolated.

    https://developer.hashicorp.com/terraform/language/syntax/json, Expression Mapping: texts are parsed
    as templates, names of properties too.
    """
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    if isinstance(value, Mapping):
        return {literal(key): literal(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [literal(each) for each in value]
    return value


def reference(path: str) -> str:
    """Return an expression that is evaluated."""
    return f"${{{path}}}"


def module_inputs(
    instance: str, spec: InstanceTerraformSpec, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return the variables of the module: the instance's name and what is set of its fields.

    A module declares only what its instances use. What `module.inputs` holds is added, and may not
    contradict a field. Raises TaskRejected.
    """
    found: dict[str, Any] = {
        "instance_name": instance,
        **_gcp(spec),
        **_names(spec),
        **_private(spec),
        **annotated(annotations),
    }
    if spec.instance_features:
        found["instance_features"] = dict(spec.instance_features)
    settings = spec.infrastructure.terraform
    further = {} if settings is None or settings.module is None else settings.module.inputs
    for name in further:
        if name in RESERVED:
            raise TaskRejected(f"module.inputs: {name} cannot be the name of an input variable")
        if name in found:
            raise TaskRejected(
                f"module.inputs: {name} is set from the instance's fields: leave it out"
            )
    return {**found, **further}


def annotated(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return what the annotations of the instance ask for. Raises TaskRejected."""
    found: dict[str, Any] = {}
    mode = annotations.get(CLOUDSQL_MODE)
    if mode is not None:
        if mode not in _MODES:
            raise TaskRejected(f"annotation {CLOUDSQL_MODE}: {mode} is none of {', '.join(_MODES)}")
        found["cloudsql_mode"] = mode
    cmek = annotations.get(ENABLE_CMEK)
    if cmek is not None:
        if cmek not in ("true", "false"):
            raise TaskRejected(f"annotation {ENABLE_CMEK}: {cmek} is neither true nor false")
        found["enable_cmek"] = cmek == "true"
    if CMEK_ALGORITHM in annotations:
        found["cmek_algorithm"] = annotations[CMEK_ALGORITHM]
    return found


def _gcp(spec: InstanceTerraformSpec) -> dict[str, Any]:
    gcp = spec.infrastructure.gcp
    if gcp is None:
        return {}
    found: dict[str, Any] = {"zone": gcp.zone}
    if gcp.project_id is not None:
        found["project_id"] = gcp.project_id
    for color, pool in (("blue", gcp.gke.blue), ("green", gcp.gke.green)):
        if pool is not None:
            found[f"{color}_machine_type"] = pool.machine_type
            found[f"{color}_additional_oauth_scopes"] = list(pool.additional_oauth_scopes)
    return found


def _names(spec: InstanceTerraformSpec) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if spec.domain is not None:
        found["domain"] = spec.domain
    if spec.custom_domains:
        found["custom_domains"] = [_plain(each) for each in spec.custom_domains]
    return found


def _private(spec: InstanceTerraformSpec) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if spec.infrastructure.private_code_host is not None:
        found["private_code_host"] = _plain(spec.infrastructure.private_code_host)
    if spec.infrastructure.private_dns is not None:
        found["private_dns"] = _plain(spec.infrastructure.private_dns)
    return found


def _plain(model: ApiModel) -> dict[str, Any]:
    """Under its names in Python, which are Terraform's style; defaults written out."""
    return model.model_dump(mode="json", by_alias=False, exclude_none=True)
