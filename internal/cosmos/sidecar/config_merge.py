"""Lays the overlays over the configuration that the chain's `init` made."""

import os
import tempfile
from pathlib import Path
from typing import Final

from tomlkit.exceptions import TOMLKitError

from internal.cosmos.fullnode.toml_overlay import APP_OVERLAY, CONFIG_OVERLAY, merged_files

OVERLAID: Final = {"config.toml": CONFIG_OVERLAY, "app.toml": APP_OVERLAY}
"""Files of a chain, and what is laid over each."""


class BadConfig(Exception):
    """A file that is no TOML."""


def merge_config(base: Path, overlays: Path, target: Path) -> list[Path]:
    """Write each file of `base` with its overlay on it to `target`. Returns what was written.

    A file that `init` does not make is made of the overlay alone. Raises BadConfig and OSError; a file is
    written whole or not at all.
    """
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, overlay in OVERLAID.items():
        parts = [path for path in (base / name, overlays / overlay) if path.exists()]
        try:
            text = merged_files(path.read_text() for path in parts)
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise BadConfig(f"{name} with {overlay} on it is no TOML: {error}") from error
        write_whole(target / name, text.encode())
        written.append(target / name)
    return written


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in place at once, so that it is never read half written."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, 0o640)  # noqa: PTH101
        os.replace(name, path)  # noqa: PTH105
    except BaseException:
        os.unlink(name)  # noqa: PTH108
        raise
