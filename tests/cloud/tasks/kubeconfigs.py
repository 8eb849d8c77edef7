"""Kubeconfigs as Secrets have them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import yaml


def inline(path: Path) -> str:
    """A kubeconfig with the data in it, as a Secret has it."""
    config = yaml.safe_load(path.read_text())
    for section, body in (("clusters", "cluster"), ("users", "user")):
        for entry in config[section]:
            for key in [k for k in entry[body] if f"{k}-data" in _INLINE]:
                data = (path.parent / entry[body].pop(key)).read_bytes()
                entry[body][f"{key}-data"] = base64.b64encode(data).decode()
    return yaml.safe_dump(config)


_INLINE: Final = {"certificate-authority-data", "client-certificate-data", "client-key-data"}
