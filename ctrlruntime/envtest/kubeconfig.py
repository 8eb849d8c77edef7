"""Kubeconfig files for the users of a test environment, and the mark that it is one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import orjson
import yaml

from ctrlruntime.envtest.process import replace_file
from ctrlruntime.envtest.users import Identity, User

MARK = "envtest.json"


def kubeconfig(
    url: str, ca_data: bytes | None, name: str, identity: Identity, *, namespace: str = "default"
) -> str:
    """Return a kubeconfig (YAML) of the user `name`, with the one context `envtest`."""
    cluster: dict[str, Any] = {"server": url}
    if ca_data:
        cluster["certificate-authority-data"] = base64.b64encode(ca_data).decode()
    context = {"cluster": "envtest", "user": name, "namespace": namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "envtest", "cluster": cluster}],
        "users": [{"name": name, "user": identity.kubeconfig_user()}],
        "contexts": [{"name": "envtest", "context": context}],
        "current-context": "envtest",
    }
    return yaml.safe_dump(document, sort_keys=False)


def write_kubeconfig(
    path: Path, url: str, ca_data: bytes | None, user: User, identity: Identity | None = None
) -> Path:
    """Write a kubeconfig, mode 0600, and return its path. By token by default. A process that reads the former one is not disturbed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known_by = identity or Identity(token=user.token)
    replace_file(path, kubeconfig(url, ca_data, user.name, known_by).encode())
    return path


def mark_server(folder: Path, *urls: str) -> None:
    """Note in `folder` that a test environment started the servers at `urls`."""
    (folder / MARK).write_bytes(orjson.dumps({"servers": urls}))


def is_marked(kubeconfig_path: Path, url: str) -> bool:
    """Whether the server at `url` was started by the environment that wrote this kubeconfig."""
    try:
        noted = orjson.loads((kubeconfig_path.parent / MARK).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return url.rstrip("/") in noted.get("servers", ())
