"""Templates and static files, read once. Everything that a template prints is escaped."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from apis.health import CLOUD_PHASES, Health
from ctrlruntime.api.printable import printable
from ctrlruntime.api.scalars import parse_time
from ctrlruntime.clock import utc_now
from manager.console.charts import HEIGHT, WIDTH
from manager.console.paths import object_path

FOLDER: Final = Path(__file__).parent
STATIC: Final = {"console.css": "text/css", "console.js": "text/javascript"}
"""Static files and their types."""

TONES: Final = {
    Health.GOOD: ("good", "✓"),
    Health.FAILING: ("bad", "✕"),
    Health.WAITING: ("open", "…"),
    Health.UNKNOWN: ("unknown", "?"),
}
"""Class and sign of what a state means: colour is not all that shows it."""
RESOURCE_HEALTH: Final = {
    **dict.fromkeys(("Applied", "Available", "Ready"), Health.GOOD),
    **dict.fromkeys(("Degraded", "Cycle", "Conflicted", "Failed"), Health.FAILING),
}
"""What the states of a tenant's resources mean; every other one waits."""


class Renderer:
    """Renders pages. Undefined names are errors, not empty texts."""

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        self.static = {name: (FOLDER / "static" / name).read_bytes() for name in STATIC}
        self._environment = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals |= {
            "asset": self.asset,
            "link": link,
            "pages_of": _pages_of,
            "path_of": object_path,
            "WIDTH": WIDTH,
            "HEIGHT": HEIGHT,
        }
        self._environment.filters |= {
            "mark": mark,
            "tone": tone,
            "phase_health": CLOUD_PHASES.health,
            "resource_health": lambda state: RESOURCE_HEALTH.get(state, Health.WAITING),
            "seg": _segment,
            "moment": moment,
            "age": lambda text: age(text, self._now()),
        }

    def load(self) -> None:
        """Compile all templates, so that no page waits for that."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def asset(self, name: str) -> str:
        """Return the path of a static file, another one for other contents."""
        return f"/static/{name}?v={hashlib.sha256(self.static[name]).hexdigest()[:12]}"

    def render(self, template: str, model: Mapping[str, Any]) -> str:
        """Return a page, without control characters and marks that change the direction of reading."""
        return printable(self._environment.get_template(template).render(model))


def link(path: str, **query: object) -> str:
    """Return a path with a query, without what is empty."""
    given = {key: str(value) for key, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path


def tone(health: Health) -> str:
    """Return the class of a state."""
    return TONES[health][0]


def mark(health: Health) -> str:
    """Return the sign of a state."""
    return TONES[health][1]


def moment(text: str) -> str:
    """Return a time as people read it: 2026-11-23T20:29:31.123Z is 2026-11-23 20:29:31Z."""
    head, _, rest = text.partition(".")
    return head.replace("T", " ", 1) + ("Z" if rest else "")


def age(text: str, now: datetime) -> str:
    """Return how long ago a time was, in one unit or two: 45s, 12m, 3h20m, 5d. Empty for a text that is no time."""
    try:
        seconds = (now - parse_time(text)).total_seconds()
    except ValueError:
        return ""
    if abs(seconds) < 60:
        return f"{max(seconds, 0):.0f}s"
    for unit, letter, part, small in _UNITS:
        if abs(seconds) >= unit:
            whole, rest = divmod(int(abs(seconds)), unit)
            minor = f"{rest // part}{small}" if whole < 10 and part and rest >= part else ""
            sign = "in " if seconds < 0 else ""
            return f"{sign}{whole}{letter}{minor}"
    return ""


_UNITS: Final = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 0, ""))
"""Seconds of each unit, its letter, and the same of the next smaller one that is shown."""


def _segment(text: str) -> str:
    return quote(text, safe="")


def _pages_of(page: int, pages: int) -> list[int]:
    return sorted({1, pages, *range(max(page - 2, 1), min(page + 2, pages) + 1)})
