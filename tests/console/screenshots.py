"""`python -m tests.console.screenshots FOLDER`: the pictures of docs/console.md, made by a real browser."""

from __future__ import annotations

import asyncio
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from apis.cosmos import CosmosFullNode, ScheduledVolumeSnapshot
from apis.tenancy import TenantRegistry, TenantTemplate
from ctrlruntime.api import Resource
from manager.console import history, samples
from manager.console.options import ConsoleOptions
from tests.console.browser import Browser, chromium
from tests.console.fleet import fill, write_log
from tests.console.harness import ADMIN, SHOWN, Harness, running
from tests.console.relatives import CLAIM, POD, fill_relatives

RUN_PAGE = "/runs/instanceterraforms/default/customer-05"
TENANT_PAGE = "/tenants/default/tenant-06-shop"
DESK = (1000, 640)
PHONE = (390, 844)
PICTURES = {
    "fleet-light.png": ("/", "light", DESK),
    "fleet-dark.png": ("/", "dark", DESK),
    "tenant.png": (TENANT_PAGE, "light", DESK),
    "nodes.png": ("/objects/cosmosfullnodes/default/gaia", "light", DESK),
    "phone.png": (TENANT_PAGE, "light", PHONE),
    "rollout.png": ("/rollouts/fleetrollouts/default/november", "dark", DESK),
    "run-light.png": (RUN_PAGE, "light", DESK),
    "run-dark.png": (RUN_PAGE, "dark", DESK),
}
"""Path, scheme and size of each."""
RELATIVES = (TenantRegistry, TenantTemplate, CosmosFullNode, ScheduledVolumeSnapshot)
LARGEST = 100 * 1024


async def sign_in(browser: Browser, console: Harness) -> None:
    """Sign in by keyboard alone."""
    await browser.open(console.url("/sign-in"))
    await browser.until("document.activeElement.id === 'token'")
    await browser.type(ADMIN.token)
    await browser.press("Enter")
    await browser.until("document.readyState === 'complete' && document.body.dataset.live")


async def age_charts(console: Harness) -> None:
    """Fill the charts with an hour in which what there is now came about."""
    state = console.console.state
    await state.sample()
    now = samples.of_all(state.indexes, console.manager.metrics.queue_states())
    for step in range(1, history.SAMPLES):
        part = step / history.SAMPLES
        sample = {key: _then(key, value, part) for key, value in now.items()}
        state.history.sample(sample)
    await state.sample()


def _then(key: tuple[history.Chart, str], value: float, part: float) -> float:
    """Return the value of a line some time ago; `part`: of the hour that has passed."""
    (what, *_), name = key
    if what == "heights":
        return value - round((1 - part) * 600 / (2 if name.endswith("2") else 1))
    wave = math.sin(part * 9) + 1
    if what == "fleet":
        return value + (round(wave) if name == "Waiting" and value else 0)
    if what == "queue":
        return round(wave * len(name) % 7)
    return round(value * min(part * 1.3, 1)) if name != "all" else value


async def take(folder: Path) -> None:
    """Make all pictures in a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch, "runs")
        options = ConsoleOptions(bind_address="127.0.0.1:0", runs_folder=runs)
        profile = Path(scratch, "profile")
        kinds: set[type[Resource[Any, Any]]] = {*SHOWN, *RELATIVES}
        async with running(options, *kinds, POD, CLAIM) as console, chromium(profile) as browser:
            await fill_relatives(console, RELATIVES)
            await fill(console)
            await age_charts(console)
            await write_log(console, runs)
            await sign_in(browser, console)
            for name, (path, scheme, size) in PICTURES.items():
                await browser.scheme(scheme)
                await browser.screenshot(*size)  # gives the window its size
                await browser.open(console.url(path))
                await browser.until("document.getElementById('live').textContent === 'Live'")
                if path == RUN_PAGE:
                    await browser.evaluate("document.getElementById('lines').scrollIntoView(false)")
                await asyncio.to_thread(
                    (folder / name).write_bytes, await browser.screenshot(*size)
                )


def main() -> None:
    """Make the pictures, and print their sizes."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/console")
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(folder))
    for name in PICTURES:
        print(f"{(folder / name).stat().st_size:>7} {folder / name}")


if __name__ == "__main__":
    main()
