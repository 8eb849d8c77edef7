"""How many files and connections this process may have open."""

from __future__ import annotations

import resource


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, as Go's runtime does; return what is allowed then.

    Each watch is a connection: 1,200 of them do not fit into the usual soft limit of 1,024. Programs that this
    process starts inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # the kernel allows less, as macOS does
            return soft
    return hard
