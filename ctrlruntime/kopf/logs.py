"""The log lines of a program with kopf's handlers."""

from __future__ import annotations

import logging

__all__ = ["configure"]


def configure(
    debug: bool | None = None,
    verbose: bool | None = None,
    quiet: bool | None = None,
    **_: object,
) -> None:
    """Write log lines to standard error, as `kopf run` does. Options of their format have no effect."""
    level = logging.DEBUG if debug or verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(
        level=level, format="[%(asctime)s] %(name)-20.20s [%(levelname)-8.8s] %(message)s"
    )
    logging.getLogger().setLevel(level)  # of a program that has handlers already
