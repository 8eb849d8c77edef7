"""What the templates of a tenant read: the row's values, and which of them must not show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from apis.tenancy import Tenant


class VariablesError(Exception):
    """The tenant's variables are not complete."""


@dataclass(frozen=True, slots=True)
class Variables:
    """What templates read. `sensitive` names those that must not show in names and messages."""

    values: Mapping[str, str] = field(repr=False)
    sensitive: frozenset[str] = frozenset()

    @property
    def public(self) -> dict[str, str]:
        """The variables whose values may be seen."""
        return {name: text for name, text in self.values.items() if name not in self.sensitive}

    @property
    def hidden(self) -> dict[str, str]:
        """The sensitive ones, to `redact` messages with."""
        return {name: text for name, text in self.values.items() if name in self.sensitive}


def variables_of(tenant: Tenant, sensitive: Mapping[str, str] | None = None) -> Variables:
    """Return the variables of a tenant. `sensitive`: the content of its Secret. Raises VariablesError."""
    spec = tenant.spec
    named = spec.sensitive_variables.names if spec.sensitive_variables else []
    missing = sorted(set(named) - set(sensitive or {}))
    if missing:
        raise VariablesError(
            f"the Secret with the sensitive variables lacks {', '.join(missing)}; it is written "
            "with the next sync of the registry"
        )
    if undrawn := sorted(set(spec.generate) - set(sensitive or {})):
        raise VariablesError(f"the generated values {', '.join(undrawn)} are not there yet")
    registry = spec.registry_id or ""
    values = {
        **spec.variables,
        **{name: (sensitive or {})[name] for name in (*named, *spec.generate)},
        "uid": spec.uid,
        "registryId": registry,
        "hubId": registry,
        "templateRef": spec.template_ref,
    }
    return Variables(values, frozenset((*named, *spec.generate)))


def with_placeholders(tenant: Tenant, sensitive: Mapping[str, str] | None) -> dict[str, str]:
    """Return sensitive values in which those that are not drawn yet are named: for what shows a tenant before it exists."""
    drawn = {name: f"<{name}, drawn when the tenant is made>" for name in tenant.spec.generate}
    return {**drawn, **(sensitive or {})}
