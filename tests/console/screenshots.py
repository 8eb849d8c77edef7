"""`python -m tests.console.screenshots FOLDER`: the pictures of docs/console.md, made by a real browser."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from manager.console.options import ConsoleOptions
from tests.console.browser import Browser, chromium
from tests.console.fleet import fill, write_log
from tests.console.harness import ADMIN, Harness, running

RUN_PAGE = "/runs/instanceterraforms/default/customer-05"
PICTURES = {
    "fleet-light.png": ("/", "light"),
    "fleet-dark.png": ("/", "dark"),
    "tenant.png": ("/tenants/default/tenant-06-shop", "light"),
    "rollout.png": ("/rollouts/fleetrollouts/default/november", "dark"),
    "run-light.png": (RUN_PAGE, "light"),
    "run-dark.png": (RUN_PAGE, "dark"),
}
"""Path and scheme of each."""
LARGEST = 100 * 1024


async def sign_in(browser: Browser, console: Harness) -> None:
    """Sign in by keyboard alone."""
    await browser.open(console.url("/sign-in"))
    await browser.until("document.activeElement.id === 'token'")
    await browser.type(ADMIN.token)
    await browser.press("Enter")
    await browser.until("document.readyState === 'complete' && document.body.dataset.live")


async def take(folder: Path) -> None:
    """Make all pictures in a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch, "runs")
        options = ConsoleOptions(bind_address="127.0.0.1:0", runs_folder=runs)
        profile = Path(scratch, "profile")
        async with running(options) as console, chromium(profile) as browser:
            await fill(console)
            await write_log(console, runs)
            await sign_in(browser, console)
            for name, (path, scheme) in PICTURES.items():
                await browser.scheme(scheme)
                await browser.open(console.url(path))
                await browser.until("document.getElementById('live').textContent === 'Live'")
                if path == RUN_PAGE:
                    await browser.screenshot()  # gives the window its size
                    await browser.evaluate("document.getElementById('lines').scrollIntoView(false)")
                await asyncio.to_thread((folder / name).write_bytes, await browser.screenshot())


def main() -> None:
    """Make the pictures, and print their sizes."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/console")
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(folder))
    for name in PICTURES:
        print(f"{(folder / name).stat().st_size:>7} {folder / name}")


if __name__ == "__main__":
    main()
