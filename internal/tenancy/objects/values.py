"""Sensitive variables: one Secret per tenant, in which alone their values are kept."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from apis.tenancy import Tenant
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.cache import Entry, Informer
from ctrlruntime.memo import VersionMemo
from internal.tenancy.objects.variables import VariablesError
from internal.tenancy.shared.labels import VALUES

SECRET: RESTMapping = BUILTIN[GroupVersionKind("", "v1", "Secret")]


def secret_name(tenant: str) -> str:
    """Return the name of the Secret with a tenant's sensitive variables."""
    return f"{tenant}-values"


def generated_name(tenant: str) -> str:
    """Return the name of the Secret with the values that were drawn for a tenant."""
    return f"{tenant}-generated"


def tenant_of_values(secret: str) -> str:
    """Return the name of the tenant that a Secret with values is of."""
    suffix = "-values" if secret.endswith("-values") else "-generated"
    return secret.removesuffix(suffix)


def values_secret(
    namespace: str, tenant: str, labels: Mapping[str, str], values: Mapping[str, str]
) -> Manifest:
    """Return the Secret as it should be."""
    data = {name: base64.b64encode(text.encode()).decode() for name, text in values.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(tenant),
            "namespace": namespace,
            "labels": {**labels, VALUES: "true"},
        },
        "data": data,
    }


@dataclass(slots=True)
class SensitiveValues:
    """Reads the values from an informer that sees these Secrets and no others."""

    informer: Informer
    _decoded: VersionMemo[str, dict[str, str]] = field(default_factory=lambda: VersionMemo(2000))

    async def of(self, tenant: Tenant) -> dict[str, str] | None:
        """Return the values of a tenant; None if it has none. Raises VariablesError until they are there."""
        named = tenant.spec.sensitive_variables
        if named is None and not tenant.spec.generate:
            return None
        await self.informer.wait_synced()
        drawn = self.generated(tenant)
        if named is None:
            return drawn
        entry = self._entry(tenant)
        if entry is None:
            raise VariablesError(
                f"the Secret {named.secret_name!r} with the sensitive variables is not there; it is "
                "written with the next sync of the registry"
            )
        return drawn | self._of_secret(entry)

    def generated(self, tenant: Tenant) -> dict[str, str]:
        """Return the values that were drawn for a tenant, as far as they are there."""
        entry = self._generated_entry(tenant)
        found = {} if entry is None else self._of_secret(entry)
        return {name: found[name] for name in tenant.spec.generate if name in found}

    def _of_secret(self, entry: Entry) -> dict[str, str]:
        return self._decoded.compute(
            entry.uid, entry.resource_version, lambda: decoded(entry.field("data"))
        )

    def version(self, tenant: Tenant) -> str:
        """Change whenever the values may have changed."""
        found = (self._entry(tenant), self._generated_entry(tenant))
        return " ".join(f"{each.uid}/{each.resource_version}" for each in found if each is not None)

    def _generated_entry(self, tenant: Tenant) -> Entry | None:
        if not tenant.spec.generate:
            return None
        name = generated_name(tenant.metadata.name or "")
        return self.informer.store.get(name, namespace=tenant.metadata.namespace or "")

    def _entry(self, tenant: Tenant) -> Entry | None:
        named = tenant.spec.sensitive_variables
        if named is None:
            return None
        return self.informer.store.get(named.secret_name, namespace=tenant.metadata.namespace or "")


def decoded(data: Mapping[str, str] | None) -> dict[str, str]:
    """Return the texts of a Secret's data. Bytes that are no UTF-8 are replaced."""
    return {name: decoded_text(text) for name, text in (data or {}).items()}


def decoded_text(text: str) -> str:
    """Return the text of one key of a Secret."""
    return base64.b64decode(text).decode("utf-8", "replace")
