"""Cloud Storage's JSON API, objects alone, kept as files so that containers see them.

https://docs.cloud.google.com/storage/docs/json_api/v1/objects
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from .rules import Refused

_NAME_BYTES = 1024  # https://docs.cloud.google.com/storage/docs/objects#naming


class Storage:
    """Buckets as folders."""

    def __init__(self, folder: Path, *buckets: str) -> None:
        self._folder = folder
        for bucket in buckets:
            self.bucket(bucket).mkdir(parents=True)

    def bucket(self, name: str) -> Path:
        return self._folder / name

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/upload/storage/v1/b/{bucket}/o", self._insert),
            web.get("/storage/v1/b/{bucket}/o", self._list),
            web.get("/storage/v1/b/{bucket}/o/{name}", self._get),
            web.delete("/storage/v1/b/{bucket}/o/{name}", self._delete),
        ]

    async def _insert(self, request: web.Request) -> web.Response:
        """objects/insert: `uploadType` and `name` are required for a media upload."""
        if request.query.get("uploadType") != "media":
            raise Refused(400, "invalid", "only uploadType=media is served here")
        name = request.query.get("name", "")
        if not name or len(name.encode()) > _NAME_BYTES or name.startswith("/"):
            raise Refused(400, "required", "Required parameter: name")
        path = self._place(request) / name
        # https://docs.cloud.google.com/storage/docs/request-preconditions: 0 is "no live object", else 412.
        if request.query.get("ifGenerationMatch") == "0" and path.exists():
            raise Refused(412, "conditionNotMet", "At least one precondition did not hold.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(await request.read())
        return web.json_response({"kind": "storage#object", "name": name, "generation": "1"})

    async def _get(self, request: web.Request) -> web.Response:
        path = self._object(request)
        if request.query.get("alt") != "media":
            return web.json_response({"kind": "storage#object", "name": request.match_info["name"]})
        return web.Response(body=path.read_bytes())

    async def _delete(self, request: web.Request) -> web.Response:
        path = self._object(request)
        path.unlink()
        while path.parent != self._place(request) and not any(path.parent.iterdir()):
            path = path.parent
            path.rmdir()
        return web.Response(status=204)

    async def _list(self, request: web.Request) -> web.Response:
        root = self._place(request)
        names = (str(p.relative_to(root)) for p in sorted(root.rglob("*")) if p.is_file())
        found = [{"name": n} for n in names if n.startswith(request.query.get("prefix", ""))]
        return web.json_response({"items": found} if found else {})

    def _place(self, request: web.Request) -> Path:
        path = self.bucket(request.match_info["bucket"])
        if not path.is_dir():
            raise Refused(404, "notFound", "The specified bucket does not exist.")
        return path

    def _object(self, request: web.Request) -> Path:
        path = self._place(request) / request.match_info["name"]
        if not path.is_file():
            raise Refused(404, "notFound", f"No such object: {request.match_info['name']}")
        return path
