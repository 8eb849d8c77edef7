"""Stories of whole systems, with the real controllers: each name is one of `make simulate SYSTEM=`."""

from __future__ import annotations

from typing import Final

SYSTEMS: Final = {
    "library": "tests.simulation.systems.library:story",
    "tenancy": "tests.simulation.systems.tenancy:story",
    "members": "tests.simulation.systems.tenancy:members",
    "cloud": "tests.simulation.systems.cloud:story",
    "cosmos": "tests.simulation.systems.cosmos:story",
    "members-cosmos": "tests.simulation.systems.cosmos:members",
    "fleet": "tests.simulation.systems.fleet:story",
}
"""Where the story of each system is, as module:function."""

SHARES: Final = {
    "fleet": 8,
    "cloud": 14,
    "cosmos": 14,
    "tenancy": 20,
    "members-cosmos": 10,
    "members": 14,
    "library": 20,
}
"""How many of 100 seeds of all systems each gets, the more the less one of them costs; those that take longest begin."""
