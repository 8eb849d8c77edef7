"""`kubectl wait --for=condition=Applied` ends once a template's change is rolled out, and not before (H-A5)."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate
from tests.envtest.kubectl.binaries import provisioned
from tests.envtest.kubectl.runner import Kubectl
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map, is_ready

UIDS = ("a", "b", "c")
TEMPLATE = "tenanttemplates.tenancy.ctrlruntime.dev/app"
WAIT = ("wait", "--for=condition=Applied", TEMPLATE)
MET = "tenanttemplate.tenancy.ctrlruntime.dev/app condition met\n"


def content(value: str) -> list[dict[str, Any]]:
    return [config_map("cm", "{{ .uid }}-cm", {"value": value})]


def kubectl_of(fleet: Fleet) -> Kubectl:
    environment = fleet.harness.environment
    kubeconfig = environment.kubeconfig("envtest")
    return Kubectl(provisioned(), kubeconfig, environment.folder, fleet.namespace)


@contextlib.contextmanager
def kubectl_wait(fleet: Fleet) -> Iterator[subprocess.Popen[str]]:
    """Run the command beside this process; end it with the block."""
    with kubectl_of(fleet).start(*WAIT, "--timeout=300s") as process:
        try:
            yield process
        finally:
            process.kill()


async def ended(process: subprocess.Popen[str]) -> str:
    """What the command printed when it succeeded."""
    out, _ = await asyncio.to_thread(process.communicate, timeout=90)
    assert process.returncode == 0, out
    return out


async def rolled_out(fleet: Fleet, value: str) -> bool:
    """Whether every tenant has this content and is ready."""
    tenants = await fleet.harness.client.list(Tenant, fleet.namespace)
    return len(tenants) == len(UIDS) and all(
        tenant.spec.config_maps[0].spec["data"] == {"value": value} and is_ready(tenant)
        for tenant in tenants
    )


@pytest.mark.criterion("H-A5")
async def test_h_a5_kubectl_wait_for_applied_ends_once_the_change_is_rolled_out(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path, tls=True) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows(*UIDS)
        await fleet.template(configMaps=content("1"))
        with kubectl_wait(fleet) as process:
            await fleet.until(TenantTemplate, "app", "Applied", "False")
            assert process.poll() is None, "there is no registry, and so no tenant"
            await fleet.registry()
            assert await ended(process) == MET
        assert await rolled_out(fleet, "1")

        # The database is down before the change comes, so that nothing rolls it out.
        await harness.stop_manager()
        place = harness.folder / fleet.file
        place.rename(place.with_suffix(".away"))
        await fleet.template(configMaps=content("2"))
        done = await asyncio.to_thread(kubectl_of(fleet).run, *WAIT, "--timeout=2s")
        assert done.code == 1, "Applied is still that of the content before"
        assert "timed out waiting for the condition" in done.err
        with kubectl_wait(fleet) as process:
            for _ in range(2):
                await harness.start_manager()
                await fleet.until(TenantTemplate, "app", "Applied", "False", "NotRolledOut")
                await harness.idle()
                assert process.poll() is None, "the change has reached no tenant"
                await harness.stop_manager()
            place.with_suffix(".away").rename(place)
            assert process.poll() is None, "the change has reached no tenant"
            await harness.start_manager()
            assert await ended(process) == MET
        assert await rolled_out(fleet, "2")
