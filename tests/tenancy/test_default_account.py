"""`--default-service-account`: who leaves `serviceAccountName` out is limited all the same (S-F24)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import click
import pytest
import pytest_asyncio

from apis.tenancy import Tenant
from ctrlruntime.envtest.proxy.requests import READS
from manager.controllers.tenancy_options import TenancyOptions
from manager.flags.privileges import default_account_option
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness
from tests.tenancy.test_impersonation import (
    SETTINGS,
    USER,
    allow,
    allow_impersonation,
    shop,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("S-F24")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    """A manager with the roles of the installation, which writes tenants as the account `shop`."""
    folder = tmp_path_factory.mktemp("harness")
    options = TenancyOptions(sqlite_root=folder, default_account="shop")
    async with TenancyHarness.start(folder, options=options, denied=["configmaps"]) as harness:
        yield harness


async def by_template(harness: TenancyHarness) -> Fleet:
    """Make the tenant `a-app` by a template without an account."""
    return await shop(harness, "a", serviceAccountName=None, configMaps=[SETTINGS])


async def by_hand(harness: TenancyHarness) -> Fleet:
    """Make a tenant by hand, as who edits a template's tenants can."""
    fleet = await Fleet.make(harness)
    spec = {"uid": "a", "templateRef": "none", "variables": {"planId": "basic"}}
    await fleet.create(Tenant, "a-app", {**spec, "configMaps": [SETTINGS]})
    return fleet


@pytest.mark.parametrize("make", [by_template, by_hand])
async def test_a_tenant_without_an_account_is_written_and_deleted_as_the_default_one(
    harness: TenancyHarness, make: Callable[[TenancyHarness], Awaitable[Fleet]]
) -> None:
    fleet = await make(harness)
    mark = harness.mark()
    told = await fleet.until(Tenant, "a-app", "PermissionsGranted", "False", "MissingPermission")
    assert f"the service account {fleet.namespace}/shop" in told.message
    assert await fleet.get(CONFIG_MAP, "a-cm") is None
    await allow_impersonation(fleet)
    await allow(fleet, "configmaps")
    await fleet.ready("a-app")
    if make is by_template:
        fleet.row("a", active=0)
    else:
        await fleet.delete(Tenant, "a-app")
    await fleet.gone(CONFIG_MAP, "a-cm")
    entries = harness.environment.proxy.log.entries(mark)
    written = [
        entry
        for entry in entries
        if (entry.user, entry.namespace, entry.resource) == (USER, fleet.namespace, "configmaps")
        and entry.verb not in (*READS, "watch")
    ]
    assert {"apply", "delete"} <= {entry.verb for entry in written}
    assert {entry.acting_as.rpartition(":")[2] for entry in written} == {"shop"}


@pytest.mark.parametrize("name", ["Shop", "a/b", "-a", "system:serviceaccount:a:b"])
async def test_the_flag_takes_a_name_alone(name: str) -> None:
    command = default_account_option(click.Command("run"))
    (option,) = command.params
    with pytest.raises(click.BadParameter, match="no name of a service account"):
        option.process_value(click.Context(command), name)
