"""The console on a phone and on a desk, in a real Chromium: nothing off screen, no word broken; all by keyboard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.tenancy import Tenant
from manager.kinds import KINDS
from tests.console.browser import Browser, chromium
from tests.console.harness import TENANT, Harness, ready, running
from tests.console.relatives import LONG_NAME, SHOWN_KINDS, fill_relatives, object_url
from tests.console.screenshots import age_charts, sign_in
from tests.console.test_browser import CONTRAST

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.criterion("U-16")]
LONG = "x" * 90
OFF_SCREEN = """
[...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && !each.closest(".skip, thead, .graph, pre, svg"))
  .filter((each) => {
    const { left, right, width } = each.getBoundingClientRect();
    return width && (left < -1 || right > document.documentElement.clientWidth + 1);
  })
  .map((each) => each.outerHTML.slice(0, 120))
"""
"""What is not within the width of the window; a drawing and a log scroll in themselves."""
BROKEN = """
(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest(".skip, thead, svg")) continue;
    for (const word of node.textContent.matchAll(/[A-Za-z0-9]{2,30}(?![A-Za-z0-9])/g)) {
      if (/[A-Za-z0-9]/.test(node.textContent[word.index - 1] || " ")) continue;
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = [...range.getClientRects()].map((each) => Math.round(each.top));
      if (new Set(tops).size > 1) found.push(word[0]);
    }
  }
  return found;
})()
"""
"""Words of up to 30 letters and digits that are on two lines."""


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[tuple[Harness, Browser]]:
    async with running(None, *SHOWN_KINDS) as harness, chromium(tmp_path) as browser:
        await fill_relatives(harness)
        message = f"the answer of https://registry.example.com/{LONG} was not understood"
        await harness.put(Tenant, LONG_NAME, TENANT, ready(False, "SomethingIsWrong", message))
        await age_charts(harness)
        await sign_in(browser, harness)
        yield harness, browser


async def test_nothing_is_off_screen_no_word_is_broken_and_all_can_be_read(
    console: tuple[Harness, Browser],
) -> None:
    """Some ten seconds: 27 pages in a browser."""
    harness, browser = console
    paths = [object_url(kind) for kind in KINDS]
    paths += ["/", "/failures", "/waiting", "/rollouts", "/runs", "/held", "/timeline", "/shards"]
    paths += ["/queues", "/data-planes", "/search?q=wrong", f"/tenants/default/{LONG_NAME}"]
    paths += ["/yaml/tenants/default/acme-web", "/objects/tenants?sort=-name"]
    for width, scheme in ((390, "light"), (1000, "dark")):
        await browser.scheme(scheme)
        await browser.screenshot(width, 800)
        for path in paths:
            await browser.open(harness.url(path))
            where = (path, width)
            assert await browser.evaluate("document.documentElement.scrollWidth") <= width, where
            if width == 390:
                assert await browser.evaluate(OFF_SCREEN) == [], where
            assert await browser.evaluate(BROKEN) == [], where
            elements, least = await browser.evaluate(CONTRAST)
            assert elements > 5
            assert least >= 4.5, where
    # What is looked for is found: in a narrow column words break, and in a wide one something is off screen.
    await browser.evaluate("document.body.style.width = '40px'")
    await browser.evaluate("document.querySelector('h1').style.overflowWrap = 'anywhere'")
    assert await browser.evaluate(BROKEN)
    await browser.evaluate("document.body.style.width = '2000px'")
    assert await browser.evaluate(OFF_SCREEN)
    assert browser.errors == []


async def test_one_works_by_keyboard_alone(console: tuple[Harness, Browser]) -> None:
    harness, browser = console
    focused = "document.activeElement.textContent"
    await browser.open(harness.url("/failures"))
    await browser.press("j")
    first = await browser.evaluate(focused)
    await browser.press("j")
    assert await browser.evaluate(focused) != first
    await browser.press("k")
    assert await browser.evaluate(focused) == first
    await browser.press("Enter")
    await browser.until(f"document.querySelector('h1').textContent.endsWith({first!r})")
    # Letters in a field are text; Escape leaves it.
    await browser.press("/")
    assert await browser.evaluate("document.activeElement.id") == "search"
    await browser.type("quota")
    await browser.press("j")
    assert await browser.evaluate("document.activeElement.id") == "search"
    await browser.press("Escape")
    assert await browser.evaluate("document.activeElement.id") != "search"
    await browser.press("/")
    await browser.type("quota")
    await browser.press("Enter")
    await browser.until("location.pathname === '/search'")
    assert "acme" in await browser.evaluate("document.getElementById('content').textContent")
    # Sections, the first page, a pause.
    await browser.press("h")
    await browser.until("location.pathname === '/' && document.readyState === 'complete'")
    await browser.until("document.getElementById('live').textContent === 'Live'")  # its script runs
    await browser.press("s")
    await browser.until("document.activeElement.tagName === 'H2'")
    # The page changes in place, and the focus stays.
    await harness.report(Tenant, LONG_NAME, ready(False, "Broken", "seen in the browser"))
    await browser.until("document.body.textContent.includes('seen in the browser')")
    assert await browser.evaluate("document.activeElement.tagName") == "H2"
    # A pause counts for what is on its way as well.
    await browser.evaluate(
        "get = fetch; fetch = (...all) => new Promise((go) => { arrive = () => go(get(...all)); })"
    )
    await harness.report(Tenant, LONG_NAME, ready(False, "Broken", "on its way"))
    await browser.until("Boolean(window.arrive)")
    await browser.press("p")
    assert await browser.evaluate("document.getElementById('live').textContent") == "Paused"
    await browser.evaluate("arrive()")
    await browser.until("document.getElementById('live').textContent !== 'Paused'")
    assert "changed" in await browser.evaluate("document.getElementById('live').textContent")
    assert not await browser.evaluate("document.body.textContent.includes('on its way')")
    ages = "[...document.querySelectorAll('.age')].map((each) => each.textContent)"
    assert all(await browser.evaluate(ages))
    assert browser.errors == []
