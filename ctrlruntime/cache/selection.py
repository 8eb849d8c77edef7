"""Which objects of a kind an informer watches."""

from collections.abc import Callable
from dataclasses import dataclass

from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.selectors import field_value, parse_fields, parse_labels
from ctrlruntime.sharding.slots import SLOT_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """``namespaces`` None: all, in one watch. Raises InvalidSelector for selectors a server would refuse."""

    namespaces: frozenset[str] | None = None
    labels: str = ""
    fields: str = ""
    sharded: bool = False
    """Only objects of the slots that this process holds, which change while it runs."""

    def __post_init__(self) -> None:
        parse_labels(self.labels)
        parse_fields(self.fields)
        if self.namespaces is not None and not self.namespaces:
            raise ValueError("namespaces is empty; None watches all of them")

    @property
    def is_everything(self) -> bool:
        return not (self.namespaces is not None or self.labels or self.fields or self.sharded)

    @property
    def label_keys(self) -> frozenset[str]:
        """Labels without which an object is not found, or may not be."""
        own = {each.key for each in parse_labels(self.labels)}
        return frozenset(own | {SLOT_LABEL}) if self.sharded else frozenset(own)

    @property
    def scopes(self) -> tuple[str, ...]:
        """One watch each; "" is all namespaces."""
        return tuple(sorted(self.namespaces)) if self.namespaces else ("",)

    def covers(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def matcher(self, *, metadata_only: bool) -> Callable[[Entry], bool | None]:
        """Whether labels and fields of an object are selected; None where a field is not at hand to tell."""
        labels = parse_labels(self.labels)
        fields = parse_fields(self.fields)
        hidden = metadata_only and any(f.path[0] != "metadata" for f in fields)
        if not labels and not fields:
            return lambda _entry: True

        def matches(entry: Entry) -> bool | None:
            if not all(requirement.matches(entry.labels) for requirement in labels):
                return False
            if not fields:
                return True
            if hidden:
                return None
            manifest = entry.decode()
            return all((field_value(manifest, f.path) == f.value) != f.negated for f in fields)

        return matches


def both_labels(general: str | None, own: str) -> str:
    """Return a label selector that demands both."""
    demanded = [each for each in (general, own) if each]
    return ",".join(demanded) if demanded else own
