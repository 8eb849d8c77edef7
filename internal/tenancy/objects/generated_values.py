"""Values that are drawn once for each tenant, such as passwords: `generate` of a template.

They are in one Secret of the tenant, and never drawn anew: what depends on them outside of the cluster, such as a
database's user, would not know the new ones. Where the Secret is lost, the tenant reports it and waits.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Final

from apis.tenancy import Characters, GeneratedValue, Tenant
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache import Entry, Informer
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import AlreadyExists, APIError, Conflict, NotFound
from ctrlruntime.client.reads import Reader
from ctrlruntime.clock import random_choice
from internal.tenancy.objects.values import SECRET, generated_name
from internal.tenancy.objects.variables import VariablesError
from internal.tenancy.shared.labels import DRAW_AGAIN, DRAWN_FOR, VALUES
from internal.tenancy.shared.outcome import refusal

ATTEMPTS: Final = 3
_CHARACTERS: Final = {
    Characters.ALPHANUMERIC: string.ascii_letters + string.digits,
    Characters.LOWERCASE: string.ascii_lowercase + string.digits,
    Characters.HEX: string.digits + "abcdef",
    Characters.DIGITS: string.digits,
}


def draw(value: GeneratedValue) -> str:
    """Return a random value."""
    characters = _CHARACTERS[value.characters]
    return "".join(random_choice(characters) for _ in range(value.length))


@dataclass(slots=True)
class GeneratedValues:
    """Draws what a tenant lacks. A tenant that has all its values costs no request."""

    informer: Informer
    """Of the Secrets with values."""
    client: Client
    """The cache's: what it wrote is in the cache."""
    draw: Callable[[GeneratedValue], str] = draw
    labels: Callable[[str, str], Mapping[str, str]] = lambda _namespace, _tenant: {}
    """Returns further labels of the Secret of a tenant, from its namespace and name."""

    async def ensure(
        self, tenant: Tenant, entry: Entry, predecessors: Set[str] = frozenset()
    ) -> None:
        """Draw the values that the tenant has not got. Raises VariablesError where one was lost.

        A tenant that takes objects over, `predecessors` by UID, takes their values over first.
        """
        if not tenant.spec.generate:
            return
        await self.informer.wait_synced()
        name, namespace = generated_name(entry.name), entry.namespace
        found = self.informer.store.get(name, namespace=namespace)
        if found is not None and found.controller is not None:
            _check_former(entry, found.controller.uid, name)
        theirs = self._inherited(tenant, namespace, predecessors)
        data = {} if found is None else found.field("data") or {}
        labels = {} if found is None else found.labels
        further = self.labels(namespace, entry.name)
        complete = not self._missing(tenant, data) and theirs.items() <= data.items()
        if complete and further.items() <= labels.items():
            return
        for _ in range(ATTEMPTS):
            try:
                await self._draw(tenant, entry, name, theirs, further)
            except (AlreadyExists, Conflict, NotFound):
                continue  # another writer was faster: look again
            except APIError as error:
                why = refusal(error, dict.fromkeys(tenant.spec.generate, "…"))
                raise VariablesError(
                    f"the generated values have no Secret {name!r}: {why}"
                ) from error
            return
        raise VariablesError(f"the Secret {name!r} changes all the time")

    async def _draw(
        self,
        tenant: Tenant,
        entry: Entry,
        name: str,
        theirs: Mapping[str, str],
        further: Mapping[str, str],
    ) -> None:
        try:  # not the cache's: a value that it has not seen yet must not be overwritten
            live = await Reader.get(self.client, SECRET, name, namespace=entry.namespace)
        except NotFound:
            live = None
        there = (live or {}).get("data") or {}
        missing = self._missing(tenant, there)
        missing = [each for each in missing if each not in theirs]
        _check_lost(tenant, entry, missing, name)
        drawn = {each: _encoded(self.draw(tenant.spec.generate[each])) for each in missing}
        drawn |= theirs
        if live is None:
            await self.client.create(_secret(entry, name, drawn, further), kind=SECRET)
            return
        metadata = live["metadata"]
        for each in metadata.get("ownerReferences") or ():
            if each.get("controller"):
                _check_former(entry, each["uid"], name)
        if (metadata.get("annotations") or {}).get(DRAWN_FOR) != entry.uid:
            raise VariablesError(
                f"a Secret {name!r} that was not made for this tenant is in the way; delete or rename it"
            )
        labels = {**(metadata.get("labels") or {}), VALUES: "true", **further}
        seen = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        patch = {"metadata": {**seen, "labels": labels}, "data": drawn}
        await self.client.patch(
            SECRET, name, patch, namespace=entry.namespace, type=PatchType.MERGE
        )

    def _inherited(self, tenant: Tenant, namespace: str, predecessors: Set[str]) -> dict[str, str]:
        """Return the values, in base64, of the tenants that hand their objects over.

        A tenant that has objects of its own already keeps its own values, but for one that waits for theirs. A value
        that they have differently is none of theirs.
        """
        waits = bool(tenant.status.conflicted_resource_ids)
        if not predecessors or (tenant.status.generated_values and not waits):
            return {}
        found: dict[str, set[str]] = {}
        for each in self.informer.store.list():
            drawn_for = each.annotations.get(DRAWN_FOR)
            if each.namespace == namespace and drawn_for in predecessors:
                for name, value in (each.field("data") or {}).items():
                    found.setdefault(name, set()).add(value)
        one = {name: values.pop() for name, values in found.items() if len(values) == 1}
        return {name: one[name] for name in tenant.spec.generate if name in one}

    @staticmethod
    def _missing(tenant: Tenant, data: Collection[str]) -> list[str]:
        return sorted(set(tenant.spec.generate) - set(data))


def _check_former(entry: Entry, owner: str, name: str) -> None:
    """Raise VariablesError for a Secret with another owner: the garbage collector deletes it, and its values are none of this tenant's."""
    if owner != entry.uid:
        raise VariablesError(
            f"the Secret {name!r} belongs to a former tenant of this name and goes with it; where it stays, "
            f"delete it: kubectl -n {entry.namespace} delete secret {name}"
        )


def _check_lost(tenant: Tenant, entry: Entry, missing: list[str], name: str) -> None:
    """Raise VariablesError for values that were drawn before, unless their loss is accepted."""
    accepted = {each.strip() for each in entry.annotations.get(DRAW_AGAIN, "").split(",")}
    lost = sorted(set(missing).intersection(tenant.status.generated_values) - accepted)
    if lost:
        raise VariablesError(
            f"the generated values {', '.join(lost)} are lost from the Secret {name!r}; restore it, or "
            f"have them drawn anew: kubectl -n {entry.namespace} annotate tenant {entry.name} "
            f"{DRAW_AGAIN}={','.join(lost)}"
        )


def _secret(entry: Entry, name: str, data: Manifest, further: Mapping[str, str]) -> Manifest:
    owner = {
        "apiVersion": entry.api_version,
        "kind": entry.kind,
        "name": entry.name,
        "uid": entry.uid,
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": entry.namespace,
            "labels": {VALUES: "true", **further},
            "annotations": {DRAWN_FOR: entry.uid},
            "ownerReferences": [owner],
        },
        "data": data,
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
