"""The manager as the account that is shipped: what it may is what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tenancy.harness import permissive
from tests.tenancy.rights_scenario import USER, LeadersHarness, cases, live, served_kinds
from tests.tenancy.webhook_overlay import WebhooksHarness, certificates_come_and_go


@pytest.mark.criterion("rbac")
async def test_every_verb_of_every_kind_is_used_in_a_whole_life(tmp_path: Path) -> None:
    async with LeadersHarness.start(tmp_path, manager=False) as harness:
        await live(harness, cases(await served_kinds(harness.client)))


@pytest.mark.criterion("rbac")
async def test_webhooks_and_their_certificates_are_served_with_the_roles_of_the_overlay(
    tmp_path: Path,
) -> None:
    options = permissive(tmp_path, webhooks=True)
    async with WebhooksHarness.start(tmp_path, manager=False, options=options) as harness:
        users = () if harness.is_real else (USER,)
        async with harness.overlaid(users):
            await certificates_come_and_go(harness)
