"""Manifests from code: CRDs from the kinds, the manager's role from what its controllers declare."""

import asyncio
from pathlib import Path

from apis.tenancy import LIST_KINDS
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.client.config import Config
from ctrlruntime.controller.controller import Controller
from ctrlruntime.generate import crd_files, drift, rbac_files, write
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.generate.permissions import Rule, declared, leads, writes_events
from ctrlruntime.manager import Manager, ManagerOptions, Runnable
from manager.controllers.tenancy import TenancyOptions, add_tenancy
from manager.options import LEADER_ELECTION_ID

MODULES = ("apis.tenancy",)
CHILD_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")


class _Listing(Manager):
    """A manager that is never started: it only takes down what is added to it."""

    def __init__(self) -> None:
        self.controllers: list[Controller] = []
        super().__init__(
            Config(host="http://127.0.0.1:9"),
            ManagerOptions(metrics_bind_address="0", health_bind_address="0"),
        )

    def add(self, runnable: Runnable) -> None:
        if isinstance(runnable, Controller):
            self.controllers.append(runnable)


async def _rules() -> list[Rule]:
    manager = _Listing()
    add_tenancy(manager, TenancyOptions())
    rules = [rule for item in manager.controllers for rule in declared(item.permissions())]
    await manager.live_client.close()
    children = set(LIST_KINDS.values())
    rules += [
        Rule(groups=(mapping.gvk.group,), resources=(mapping.plural,), verbs=CHILD_VERBS)
        for mapping in BUILTIN.values()
        if mapping.gvk.group_kind in children
    ]
    return [*rules, *writes_events(), *leads(name=LEADER_ELECTION_ID)]


def files() -> dict[str, str]:
    """Every generated file by its path below `config/`."""
    return {
        **crd_files(find_kinds(load(MODULES))),
        **rbac_files(asyncio.run(_rules())),
    }


def generate(directory: Path) -> list[Path]:
    """Write the files that differ. Returns their paths."""
    return write(files(), directory)


def check(directory: Path) -> str:
    """What differs between code and files, as a diff; empty if nothing does."""
    return drift(files(), directory)
