"""Users that come and go while an API server runs: a webhook that holds their tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import yaml

from ctrlruntime.envtest.backends.ports import LOOPBACK
from ctrlruntime.envtest.users import User


class TokenReviews:
    """Answers authentication.k8s.io/v1 TokenReviews on loopback, from a thread of its own.

    kube-apiserver reads its token file once; whom it does not find there it looks up here.
    """

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        server.daemon_threads = True
        serve = threading.Thread(
            target=server.serve_forever, args=(0.05,), name="token reviews", daemon=True
        )
        serve.start()
        self._server, self._thread = server, serve

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None

    def add(self, users: Iterable[User]) -> None:
        """From now on their tokens are good."""
        self._users.update({user.token: user for user in users})

    def remove(self, users: Iterable[User]) -> None:
        """From now on (once the API server's cache forgets them) their tokens are refused."""
        for user in users:
            self._users.pop(user.token, None)

    def write_kubeconfig(self, path: Path) -> Path:
        """Return what --authentication-token-webhook-config-file wants. Raises RuntimeError if not started."""
        if self._server is None:
            raise RuntimeError("the webhook is not running: call start() first")
        url = f"http://{LOOPBACK}:{self._server.server_address[1]}/"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "users", "cluster": {"server": url}}],
            "users": [{"name": "apiserver"}],
            "contexts": [{"name": "users", "context": {"cluster": "users", "user": "apiserver"}}],
            "current-context": "users",
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def review(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one TokenReview."""
        user = self._users.get((request.get("spec") or {}).get("token", ""))
        status: dict[str, Any] = {"authenticated": user is not None}
        if user is not None:
            info = {"username": user.name, "uid": user.uid or user.name}
            status["user"] = {**info, "groups": list(user.groups)}
        return {"apiVersion": request["apiVersion"], "kind": "TokenReview", "status": status}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        reviews = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                answer = orjson.dumps(reviews.review(orjson.loads(self.rfile.read(length))))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Nothing: standard error belongs to the tests."""

        return Handler
