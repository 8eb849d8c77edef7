"""Namespaces of tests, made without kubectl: each start of it takes a tenth of a second of a core."""

from __future__ import annotations

import base64
import json
import ssl
from functools import cache
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import yaml

PATH = "/api/v1/namespaces"


def create_namespace(kubeconfig: Path, name: str) -> None:
    """As the user of the kubeconfig. Raises AssertionError with the server's answer if it will not."""
    _send(kubeconfig, "POST", PATH, {"metadata": {"name": name}})


def delete_namespace(kubeconfig: Path, name: str) -> None:
    """Delete it without a wait for its contents to go. Raises AssertionError as `create_namespace` does."""
    _send(kubeconfig, "DELETE", f"{PATH}/{name}", None)


def _send(kubeconfig: Path, method: str, path: str, body: object) -> None:
    address, token, context = _access(kubeconfig)
    connection = HTTPSConnection(address, context=context, timeout=120)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        assert answer.status in (200, 201, 202), f"{method} {path}: {answer.status} {said}"
    finally:
        connection.close()


@cache
def _access(kubeconfig: Path) -> tuple[str, str, ssl.SSLContext]:
    content = yaml.safe_load(kubeconfig.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    return urlsplit(cluster["server"]).netloc, user["token"], context
