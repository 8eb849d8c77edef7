"""A small blocking client for a real API server that serves as the oracle."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import Any
from urllib.parse import urlsplit

URL = os.environ.get("CTRLRUNTIME_ORACLE_URL", "")
TOKEN = os.environ.get("CTRLRUNTIME_ORACLE_TOKEN", "")
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"


class Oracle:
    """One kept connection; answers as (status, decoded body)."""

    def __init__(self) -> None:
        parts = urlsplit(URL)
        context = ssl.create_default_context()
        # The oracle is a process on the loopback interface with a certificate of its own making.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "127.0.0.1", parts.port, context=context, timeout=30
        )

    def call(
        self, method: str, path: str, body: Any = None, content_type: str = JSON
    ) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": JSON}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        self._connection.request(method, path, body=data, headers=headers)
        answer = self._connection.getresponse()
        text = answer.read()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode()

    def close(self) -> None:
        self._connection.close()
