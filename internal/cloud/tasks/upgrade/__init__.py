"""Task `upgrade`: health check, backup, migration, roll-out, verification; each step is done once."""

from .task import UpgradeTask

__all__ = ["UpgradeTask"]
