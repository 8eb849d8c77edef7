"""A Control writes nothing to a protected namespace, by whichever method, and what is there stays as it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client import NamespaceProtected, ProtectedNamespaces
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.gate import Cause, Permit
from ctrlruntime.resources import Control, Owner
from ctrlruntime.resources.dry_run import DryRunControl
from tests.resources.test_control import CONFIG_MAP, desired, owner_of

pytestmark = pytest.mark.criterion("S-F15")
HERE = ProtectedNamespaces(patterns=frozenset({"def*"}), remedy="use --flag {namespace}")
Write = Callable[[Control, Entry, Owner], Awaitable[object]]


def permit_of(control: Control, entry: Entry, owner: Owner) -> Permit:
    permit = control.permit(entry, owner, Cause.SPEC_CHANGED)
    assert isinstance(permit, Permit)
    return permit


async def release(control: Control, entry: Entry, owner: Owner) -> object:
    permit = permit_of(control, entry, owner)
    return await control.release(CONFIG_MAP, entry, owner, permit, labels={}, annotations={})


WRITES: dict[str, Write] = {
    "create": lambda control, _entry, owner: control.ensure(desired("new", k="1"), owner),
    "update": lambda control, _entry, owner: control.ensure(desired("a", k="2"), owner),
    "reclaim": lambda control, _entry, owner: control.reclaim(desired("a", k="2"), owner),
    "delete": lambda control, entry, owner: control.delete(
        CONFIG_MAP, entry, owner, permit_of(control, entry, owner)
    ),
    "remove": lambda control, entry, owner: control.remove(
        CONFIG_MAP, entry, owner, Cause.SPEC_CHANGED
    ),
    "release": release,
}


@pytest.mark.parametrize("kind", ["writes", "plans"])
@pytest.mark.parametrize("write", WRITES)
async def test_s_f15_no_method_writes_to_a_protected_namespace(kind: str, write: str) -> None:
    async with Environment(proxy=True) as env, Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        cache.declare(CONFIG_MAP, track_manager="manager")
        await cache.start()
        await cache.wait_synced(10.0)
        owner = await owner_of(env)
        control = Control(cache, field_manager="manager")
        await control.ensure(desired("a", k="1"), owner)
        entry = control.look(desired("a"))
        assert entry is not None
        cache.protected = HERE
        if kind == "plans":
            control = DryRunControl(cache, field_manager="manager", on_write=lambda _write: None)
        mark = env.proxy.log.mark()
        with pytest.raises(NamespaceProtected, match="use --flag default"):
            await WRITES[write](control, entry, owner)
        assert env.proxy.log.since(mark).select(user="manager").writes == 0
        cache.protected = ProtectedNamespaces(
            patterns=HERE.patterns, allowed=frozenset({"default"})
        )
        await WRITES[write](control, entry, owner)
        await cache.stop()
