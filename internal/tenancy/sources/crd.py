"""The CRD of TenantRegistry with the fields of the source types that packages registered.

python -m internal.tenancy.sources.crd | kubectl apply --server-side -f -
"""

from __future__ import annotations

import sys

from apis.tenancy import TenantRegistry
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.generate import to_yaml
from ctrlruntime.generate.jsonschema import json_schema_of
from ctrlruntime.generate.structural import SchemaOptions, Structural
from internal.tenancy.sources.catalog import SourceTypes


def registry_crd(types: SourceTypes) -> Manifest:
    """Return the CRD. Raises SchemaError for fields that have no structural schema."""
    crd = TenantRegistry.crd()
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        source = spec["properties"]["source"]
        for each in types.registered:
            schema = json_schema_of(each.fields)
            definitions = schema.pop("$defs", {})
            source["properties"][each.name] = Structural(definitions, SchemaOptions()).convert(
                schema, name=each.fields.__name__, json_path=None
            )
            source["properties"]["type"]["enum"].append(each.name)
            source["x-kubernetes-validations"].append(
                {
                    "rule": f"self.type != '{each.name}' || has(self.{each.name})",
                    "message": f"{each.name} is required when type is {each.name}",
                    "reason": "FieldValueRequired",
                    "fieldPath": f".{each.name}",
                }
            )
    return crd


if __name__ == "__main__":
    sys.stdout.write(to_yaml(registry_crd(SourceTypes.installed())))
