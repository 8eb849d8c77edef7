"""Visit every state of all worlds, by breadth and by depth; print the counts as JSON.

The exit code is 1 where a rule is broken or the counts differ. Arguments: names of worlds, instead of all.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from tests.prove.explorer import explore
from tests.prove.worlds import WORLDS


def _visit(name: str, depth_first: bool) -> dict[str, Any]:
    begun = time.process_time()
    found = explore(WORLDS[name](), depth_first=depth_first)
    report: dict[str, Any] = {"states": found.states, "steps": found.steps, "calm": found.calm}
    if found.broken:
        report |= {"broken": found.broken, "path": found.path}
    return report | {"seconds": round(time.process_time() - begun, 1)}


def main(names: list[str]) -> int:
    """Return the exit code."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("fork")) as pool:
        started = {
            (name, depth_first): pool.submit(_visit, name, depth_first)
            for name in names or WORLDS
            for depth_first in (False, True)
        }
        found = {key: each.result() for key, each in started.items()}
    report: dict[str, Any] = {}
    right = True
    for name in names or WORLDS:
        breadth, depth = found[name, False], found[name, True]
        equal = all(breadth[each] == depth[each] for each in ("states", "steps", "calm"))
        report[name] = {"by breadth": breadth, "by depth": depth, "equal": equal}
        right = right and equal and "broken" not in breadth
    states = sum(found[name, False]["states"] for name in names or WORLDS)
    sys.stdout.write(json.dumps({"states": states, "all hold": right, **report}, indent=2) + "\n")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
