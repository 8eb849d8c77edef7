"""`python -m tests.docs.recording`: record the README's quick start as docs/recordings/quick-start.cast and .svg.

The demo runs, each command of the README's blocks is typed and carried out, and what it prints is kept with its time. The first file is
an asciicast (version 2), which players of terminals read; the second one is a picture that plays in a browser by itself.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from pathlib import Path

from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.terminal import Terminal
from tests.envtest.kubectl.binaries import provisioned

FOLDER = ROOT / "docs" / "recordings"
NAME = "quick-start"
COLUMNS, ROWS = 132, 28
TYPED = 0.8
"""Seconds between a command and what came before."""
LONGEST_WAIT = 1.5
"""A command that takes longer seems to take so many seconds."""
MOST_LINES = 14
"""Lines of one answer; more are cut."""
CHARACTER, LINE = 7.8, 18


@dataclass(frozen=True, slots=True)
class Frame:
    """Text that appears so many seconds after what came before."""

    after: float
    text: str


def quick_start() -> tuple[Block, list[Block]]:
    """Return the README's block that starts the demo, and those that are for another terminal."""
    shells = [block for block in blocks("README.md") if block.language == "sh"]
    start = next(n for n, block in enumerate(shells) if block.text == "make run\n")
    end = next(n for n, block in enumerate(shells) if block.text == "make test\n")
    return shells[start], shells[start + 1 : end]


def commands(block: Block) -> Iterator[str]:
    """Yield the commands of a block; a here-document is a part of its command."""
    lines = iter(block.text.splitlines())
    for line in lines:
        found = [line]
        if opened := re.search(r"<<-?\s*'?(\w+)'?", line):
            found += iter(lambda: next(lines), opened[1])
            found.append(opened[1])
        yield "\n".join(found)


async def record(folder: Path) -> list[Frame]:
    """Run the demo in a folder, and the commands beside it."""
    path = f"{provisioned().parent}:{Path(sys.executable).parent}:/usr/bin:/bin"
    terminal = Terminal(ROOT, {"PATH": path, "COLUMNS": str(COLUMNS)})
    start, shells = quick_start()
    frames = [Frame(0.0, f"$ {start.text}"), Frame(TYPED, "# in another terminal:\n")]
    demo = f"exec {sys.executable} -m manager demo --folder {folder}"
    try:
        await terminal.start(demo, until="tenants are ready", what="the demo")
        for command in (command for block in shells for command in commands(block)):
            began = time.monotonic()
            carried_out = command.replace("$PWD/.run", str(folder)).replace(".run/", f"{folder}/")
            printed = await terminal.run(carried_out, what=command)
            frames.append(Frame(TYPED, f"$ {command}\n"))
            waited = min(LONGEST_WAIT, time.monotonic() - began)
            frames.append(Frame(waited, shortened(printed.replace(str(folder), ".run"))))
    finally:
        await terminal.close()
    return [frame for frame in frames if frame.text]


def shortened(printed: str) -> str:
    """Return the lines that fit, without empty ones at the end."""
    lines = [line[:COLUMNS] for line in printed.rstrip().splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "..."]
    return "".join(f"{line}\n" for line in lines)


def asciicast(frames: Sequence[Frame]) -> str:
    """Return the recording for players of terminals."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "Quick start of ctrlruntime"}
    moments = accumulate(frame.after for frame in frames)
    events = [
        [round(moment, 2), "o", frame.text.replace("\n", "\r\n")]
        for moment, frame in zip(moments, frames, strict=True)
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *events))


def picture(frames: Sequence[Frame]) -> str:
    """Return the recording as a picture that plays once; without motion, where that is preferred, its end."""
    shown: list[tuple[float, str]] = []
    moment = 0.0
    for frame in frames:
        moment += frame.after
        shown += [(moment, line[:COLUMNS]) for line in frame.text.splitlines()]
    width, height, total = int(COLUMNS * CHARACTER) + 24, ROWS * LINE + 24, moment + 1
    steps = [
        f"{100 * when / total:.2f}%{{transform:translateY({-LINE * max(0, number + 1 - ROWS)}px)}}"
        for number, (when, _) in enumerate(shown)
    ]
    last = -LINE * max(0, len(shown) - ROWS)
    texts = [
        f'<text y="{LINE * (number + 1)}" class="{"c" if line.startswith(("$", "#")) else "o"}" '
        f'style="animation-delay:{when:.2f}s">{escape(line)}</text>'
        for number, (when, line) in enumerate(shown)
    ]
    style = (
        "text{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre;fill:#d8dee9;opacity:0;"
        "animation:show .01s linear forwards}.c{fill:#8fd0a0}@keyframes show{to{opacity:1}}"
        f"#all{{animation:scroll {total:.2f}s step-end forwards}}"
        f"@keyframes scroll{{{''.join(steps)}100%{{transform:translateY({last}px)}}}}"
        "@media(prefers-reduced-motion){text{animation:none;opacity:1}"
        f"#all{{animation:none;transform:translateY({last}px)}}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Recording of a terminal: the quick start"><style>{style}</style>'
        f'<rect width="{width}" height="{height}" rx="8" fill="#1f2430"/>'
        f'<svg x="12" y="8" width="{width - 24}" height="{height - 16}"><g id="all">'
        f"{''.join(texts)}</g></svg></svg>\n"
    )


async def main() -> None:
    """Write both files, and print their sizes."""
    with tempfile.TemporaryDirectory() as folder:
        frames = await record(Path(folder))
    FOLDER.mkdir(exist_ok=True)
    for suffix, text in (("cast", asciicast(frames)), ("svg", picture(frames))):
        path = FOLDER / f"{NAME}.{suffix}"
        path.write_text(text)
        print(f"{path.relative_to(ROOT)}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    asyncio.run(main())
