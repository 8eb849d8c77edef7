"""Import every module of the runtime and of the manager where the test environment is missing.

    python without_envtest.py MODULE...

MODULE: modules that count as missing, besides those below ctrlruntime.envtest. Prints the modules that
were imported. Standard library alone: it runs in environments that have nothing of the tests.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

PACKAGES = ("ctrlruntime", "apis", "internal", "manager")
LEFT_OUT = (
    "ctrlruntime.envtest",
    "manager.demo.tenants",
    "manager.demo.fleet",
    "manager.demo.embedded",
)
"""The test environment, and what starts it."""


class Missing(MetaPathFinder):
    """Finds some modules, and those below them, to be missing."""

    def __init__(self, *names: str) -> None:
        """Raise for `names` before other finders are tried."""
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Raise ModuleNotFoundError for a missing module."""
        if is_below(fullname, self._names):
            raise ModuleNotFoundError(f"{fullname} is imported at run time", name=fullname)


def is_below(name: str, packages: Sequence[str]) -> bool:
    """Return whether the module is one of the packages or within one."""
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def modules() -> Iterator[str]:
    """Yield the modules that run in production, without those that are programs."""
    for package in PACKAGES:
        yield package
        paths = importlib.import_module(package).__path__
        for found in pkgutil.walk_packages(paths, f"{package}."):
            if not is_below(found.name, LEFT_OUT) and not found.name.endswith(".__main__"):
                yield found.name


def main() -> None:
    """Import all. Raises what an import raises."""
    sys.meta_path.insert(0, Missing("ctrlruntime.envtest", *sys.argv[1:]))
    for name in modules():
        importlib.import_module(name)
        sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
