"""What a plan changes, in a few words."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Numbers of resources."""

    add: int = 0
    change: int = 0
    destroy: int = 0

    @property
    def empty(self) -> bool:
        """Whether no resource changes. Outputs may."""
        return not (self.add or self.change or self.destroy)

    def planned(self) -> str:
        """Before: `2 to add, 1 to change, 0 to destroy`."""
        return f"{self.add} to add, {self.change} to change, {self.destroy} to destroy"

    def done(self) -> str:
        """Afterwards: `2 added, 1 changed, 0 destroyed`."""
        return f"{self.add} added, {self.change} changed, {self.destroy} destroyed"
