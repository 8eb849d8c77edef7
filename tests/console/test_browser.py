"""The console in a real Chromium: by keyboard, live, light and dark, and within its own policy."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.tenancy import Tenant
from manager.console.options import ConsoleOptions
from tests.console.browser import FOCUSED, Browser, chromium
from tests.console.fleet import fill
from tests.console.harness import Harness, ready, running
from tests.console.screenshots import LARGEST, PICTURES, sign_in
from tests.console.test_run_log import begin, page_of
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.xdist_group("browser")

CONTRAST = """
(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const ratios = [...document.querySelectorAll("body *")]
    .filter((each) => each.checkVisibility() && !each.closest("svg") && [...each.childNodes]
      .some((node) => node.nodeType === 3 && node.textContent.trim()))
    .map((each) => {
      const [a, b] = [light(getComputedStyle(each).color), light(back(each))];
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
  return [ratios.length, Math.min(...ratios)];
})()
"""
"""How many elements with text there are, and the least contrast of one."""


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[tuple[Harness, Browser]]:
    options = ConsoleOptions(bind_address="127.0.0.1:0", runs_folder=tmp_path / "runs")
    async with running(options) as harness, chromium(tmp_path) as browser:
        await fill(harness)
        await sign_in(browser, harness)
        yield harness, browser


async def test_a_page_is_used_by_keyboard_is_live_and_readable_in_light_and_dark(
    console: tuple[Harness, Browser],
) -> None:
    harness, browser = console
    # By keyboard: the first stop skips to the content, the next is the menu.
    await browser.press("Tab")
    assert await browser.evaluate(FOCUSED) == "Skip to the content"
    await browser.press("Enter")
    assert await browser.evaluate(FOCUSED) == "main"
    await browser.press("Tab")
    assert await browser.evaluate(FOCUSED) == "pause"
    await browser.press("Tab")
    focused = await browser.evaluate("document.activeElement.getAttribute('href')")
    assert focused.startswith("/objects/")
    # Live: the page changes in place, and the focus stays.
    await browser.until("document.getElementById('live').textContent === 'Live'")
    await browser.evaluate("window.same = true")
    broken = ready(False, "Broken", "seen in the browser")
    await harness.report(Tenant, "tenant-00-web", broken)
    await browser.until("document.body.textContent.includes('seen in the browser')")
    assert await browser.evaluate("window.same")
    assert await browser.evaluate("document.activeElement.getAttribute('href')") == focused
    # Paused, it stays as it is.
    reads = "Number(document.body.dataset.reads)"
    await browser.evaluate("document.getElementById('pause').click()")
    before = await browser.evaluate(reads)
    await harness.report(Tenant, "tenant-00-web", ready(True))
    await browser.until("document.getElementById('live').textContent.includes('changed')")
    assert await browser.evaluate(reads) == before
    await browser.evaluate("document.getElementById('pause').click()")
    await browser.until(f"{reads} > {before}")
    # Light and dark: different colours, each with the contrast of WCAG AA.
    backs = set()
    for scheme in ("light", "dark"):
        await browser.scheme(scheme)
        backs.add(await browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        for path in ("/", "/tenants/default/tenant-06-shop", "/sign-in"):
            await browser.open(harness.url(path))
            elements, least = await browser.evaluate(CONTRAST)
            assert elements > 5
            assert least >= 4.5, (scheme, path)
    assert len(backs) == 2
    assert browser.errors == []


async def test_the_log_of_a_run_grows_at_its_end_and_is_read_in_peace(
    console: tuple[Harness, Browser],
) -> None:
    harness, browser = console
    file = await begin(harness)
    file.write_text("".join(f"line {number}\n" for number in range(150)))
    await browser.open(harness.url(page_of()))
    await browser.until("document.getElementById('live').textContent === 'Live'")
    log = "document.getElementById('lines')"
    below = f"({log}.scrollHeight - {log}.clientHeight - {log}.scrollTop)"
    assert await browser.evaluate(f"{log}.scrollHeight > 2 * {log}.clientHeight")
    assert await browser.evaluate(f"{below} < 2")
    # New lines appear without a reload, and the end stays in view.
    await browser.evaluate("window.same = true")
    with file.open("a") as text:
        text.write("<b>seen</b> in the browser\n")
    await browser.until(f"{log}.textContent.includes('<b>seen</b> in the browser')")
    assert await browser.evaluate("window.same")
    assert await browser.evaluate(f"{below} < 2")
    # By keyboard it has the focus and is scrolled; who reads further up stays there.
    await browser.evaluate(f"{log}.focus()")
    await browser.evaluate(f"{log}.scrollTop = 20")
    with file.open("a") as text:
        text.write("one more\n")
    await browser.until(f"{log}.textContent.includes('one more')")
    assert await browser.evaluate(f"{log}.scrollTop") == 20
    assert await browser.evaluate(FOCUSED) == "lines"
    for scheme in ("light", "dark"):
        await browser.scheme(scheme)
        elements, least = await browser.evaluate(CONTRAST)
        assert elements > 5
        assert least >= 4.5, scheme
    assert browser.errors == []


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_document_are_small(name: str) -> None:
    data = (ROOT / "docs" / "console" / name).read_bytes()
    assert len(data) <= LARGEST
    assert struct.unpack(">II", data[16:24]) == PICTURES[name][2]
    assert f"console/{name}" in (ROOT / "docs" / "console.md").read_text()
