"""Build hook: the wheel holds ctrlruntime/envtest but its `__init__.py`, which ctrlruntime's wheel has."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEFT_OUT = ("__init__.py", "__pycache__")


class Hook(BuildHookInterface[Any]):
    """Adds the files of the checkout, two folders up, which hatchling includes by name only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add every entry of the package."""
        folder = Path(self.root).parents[1] / "ctrlruntime" / "envtest"
        build_data["force_include"] |= {
            str(path): f"ctrlruntime/envtest/{path.name}"
            for path in sorted(folder.iterdir())
            if path.name not in LEFT_OUT
        }
