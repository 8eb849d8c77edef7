"""Names belong to one instance, over all namespaces: who has a name, and who comes too late. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from apis.cloud import Instance, InstanceSpec, InstanceStatus
from ctrlruntime.cache import Entry, Store
from internal.cloud.instance.reading import read
from internal.cloud.instance.status import DOMAIN_CONFLICT, Hindrance
from internal.cloud.subresources.domains import all_domains

INDEX = "domain"
"""Index of instances by every name that they want or hold."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A name that another instance has."""

    domain: str
    holder: str
    """`namespace/name` of that instance."""


def names_of(entry: Entry) -> list[str]:
    """Return the names that an instance wants or holds, for the index; none if it cannot be read."""
    found = set((entry.field("status") or {}).get("domains") or ())
    spec = entry.field("spec") or {}
    found |= {spec.get("domain"), spec.get("primaryDNSName")}
    found |= {item.get("dnsName") for item in spec.get("customDomains") or ()}
    return sorted({name.lower().rstrip(".") for name in found if name})


def taken(instance: Instance, others: Iterable[Instance]) -> Taken | None:
    """Return the first name that the instance may not have, since another one holds it or came first.

    Holding counts more than age: an older instance that changes its mind takes nothing away.
    """
    wanted, own = all_domains(instance.spec), {*instance.status.domains}
    holders: dict[str, Instance] = {}
    earlier: dict[str, Instance] = {}
    for other in sorted(
        others, key=_since
    ):  # each one's names are looked at once: there may be 20,000
        for domain in wanted.intersection(other.status.domains):
            holders.setdefault(domain, other)
        if _since(other) < _since(instance):
            for domain in wanted & all_domains(other.spec):
                earlier.setdefault(domain, other)
    for domain in sorted(wanted - own):
        found = holders.get(domain) or earlier.get(domain)
        if found is not None:
            return Taken(domain, _name(found))
    return None


@dataclass(frozen=True, slots=True)
class Domains:
    """The names of all instances, over all namespaces, as the cache has them."""

    instances: Store

    def conflict(self, instance: Instance) -> Hindrance | None:
        """Why the instance may not go on, if another one has a name that it wants."""
        found = taken(instance, self._others(instance))
        if found is None:
            return None
        message = (
            f"The name {found.domain!r} belongs to the instance {found.holder}. Choose another name, or "
            "take it from that instance first; until then nothing is done for this one."
        )
        return Hindrance(reason="DomainTaken", message=message, condition=DOMAIN_CONFLICT)

    def _others(self, instance: Instance) -> list[Instance]:
        names = all_domains(instance.spec)
        entries = {
            entry.uid: entry for name in names for entry in self.instances.by_index(INDEX, name)
        }
        return [read(entry)[0] for uid, entry in entries.items() if uid != instance.metadata.uid]


def held(spec: InstanceSpec, status: InstanceStatus, *, ready: bool, refused: bool) -> list[str]:
    """Return the names that the instance holds from now on.

    Earlier ones are kept until everything matches the spec: until then they are still in use.
    """
    before = set() if ready else set(status.domains)
    wanted = set() if refused else all_domains(spec)
    return sorted(before | wanted)


def _since(instance: Instance) -> tuple[str, str]:
    created = instance.metadata.creation_timestamp
    return ("" if created is None else created.isoformat(), instance.metadata.uid or "")


def _name(instance: Instance) -> str:
    return f"{instance.metadata.namespace}/{instance.metadata.name}"
