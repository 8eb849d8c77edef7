"""A headless Chromium, driven by its DevTools protocol. The binary is Debian's `chromium`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from ctrlruntime.json import Json
from tests.private_server import find_binary
from tests.support.waiting import eventually

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--remote-debugging-port=0", "--font-render-hinting=none"),
)
KEYS = {
    "Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
    "Enter": {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Escape": {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
}
FOCUSED = "document.activeElement && (document.activeElement.id || document.activeElement.textContent.trim())"


class Browser:
    """One page of a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())
        self.errors: list[str] = []
        """What the page reported as wrong: exceptions, and what its policy refused."""

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        async with asyncio.timeout(60):
            found = await answer
        assert "error" not in found, (method, found)
        result: dict[str, Any] = found["result"]
        return result

    async def evaluate(self, script: str) -> Json:
        """The value of an expression on the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, script: str) -> None:
        """Wait until an expression holds; while a page loads, none does."""

        async def holds() -> bool:
            with contextlib.suppress(AssertionError):
                return bool(await self.evaluate(script))
            return False

        await eventually(holds)

    async def open(self, url: str) -> None:
        """Navigate, and wait for the page."""
        await self.evaluate("window.left = true")
        await self.call("Page.navigate", url=url)
        await self.until("!window.left && document.readyState === 'complete'")

    async def press(self, key: str) -> None:
        """Press a key of KEYS, or one with a letter or a sign."""
        about = KEYS.get(key, {"key": key, "text": key})
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, **about)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": name}
        await self.call("Emulation.setEmulatedMedia", features=[feature])

    async def screenshot(self, width: int = 1000, height: int = 640) -> bytes:
        """A PNG of the top of the page."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        found = await self.call("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        return base64.b64decode(found["data"])

    async def _read(self) -> None:
        async for message in self._socket:
            found = json.loads(message.data)
            if (number := found.get("id")) is not None:
                self._answers.pop(number).set_result(found)
            elif found["method"] == "Runtime.exceptionThrown":
                self.errors.append(str(found["params"]["exceptionDetails"]))
            elif found["method"] == "Log.entryAdded":
                entry = found["params"]["entry"]
                if entry["level"] == "error":
                    self.errors.append(f"{entry['text']} {entry.get('url', '')}")


@contextlib.asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """A browser with a profile of its own in a folder. Raises ServerMissing."""
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        *(
            find_binary(["chromium"], "chromium"),
            *FLAGS,
            f"--user-data-dir={profile}",
            "about:blank",
        ),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        place = profile / "DevToolsActivePort"
        await eventually(lambda: place.exists() and len(place.read_text().split()) == 2)
        address = f"http://127.0.0.1:{place.read_text().split()[0]}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{address}/json/list") as answer:
                pages = [each for each in await answer.json() if each["type"] == "page"]
            url = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(url, max_msg_size=64 * 1024 * 1024) as socket:
                browser = Browser(socket)
                try:
                    for domain in ("Page", "Runtime", "Log"):
                        await browser.call(f"{domain}.enable")
                    yield browser
                finally:
                    await browser.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
