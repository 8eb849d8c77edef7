"""Comparing resourceVersions. Servers promise that they are comparable integers within a kind."""

from ctrlruntime.cache.entry import Entry


def number(resource_version: str) -> int:
    """Return the version as an integer; 0 for one that cannot be compared (an aggregated API may do so)."""
    try:
        return int(resource_version)
    except ValueError:
        return 0


def version(entry: Entry | None) -> int:
    """Return the version of an entry as an integer; 0 for none, as for one that cannot be compared."""
    if entry is None:
        return 0
    try:  # not by `number`: it is called a dozen times for each write
        return int(entry.resource_version)
    except ValueError:
        return 0
