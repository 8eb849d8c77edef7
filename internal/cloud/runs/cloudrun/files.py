"""The files of runs in a bucket, by the JSON API of Cloud Storage."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from internal.cloud.runs.cloudrun.api import CloudAPI, CloudError
from internal.cloud.runs.cloudrun.options import CloudRunOptions

__all__ = ["INPUT", "RESULT", "SEAL_KEY", "SECRETS", "BucketFiles"]

INPUT: Final = "input.json"
SEAL_KEY: Final = "seal-key"
SECRETS: Final = "secrets"
RESULT: Final = "result"
_NOT_FOUND: Final = 404
_PRECONDITION_FAILED: Final = 412


class BucketFiles:
    """A folder for each run: `<run id>/<file>`."""

    def __init__(self, api: CloudAPI, options: CloudRunOptions) -> None:
        self._api = api
        bucket = quote(options.bucket, safe="")
        self._objects = f"{options.storage_url}/storage/v1/b/{bucket}/o"
        self._uploads = f"{options.storage_url}/upload/storage/v1/b/{bucket}/o"

    async def make(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Write a file, unless it is there already."""
        for name, data in files.items():
            params = {"uploadType": "media", "name": f"{run_id}/{name}", "ifGenerationMatch": "0"}
            try:
                await self._api.send(
                    "POST",
                    self._uploads,
                    params=params,
                    data=data,
                    content_type="application/octet-stream",
                )
            except CloudError as error:
                if error.status != _PRECONDITION_FAILED:
                    raise

    async def read(self, run_id: str, name: str) -> bytes:
        """Empty if it is not there."""
        try:
            return await self._api.send(
                "GET", self._object(f"{run_id}/{name}"), params={"alt": "media"}
            )
        except CloudError as error:
            if error.status == _NOT_FOUND:
                return b""
            raise

    async def remove(self, run_id: str) -> None:
        """Every file of the run."""
        params = {"prefix": f"{run_id}/", "fields": "items/name,nextPageToken"}
        while True:
            page = await self._api.json("GET", self._objects, params=params)
            for item in page.get("items", []):
                try:
                    await self._api.send("DELETE", self._object(item["name"]))
                except CloudError as error:
                    if error.status != _NOT_FOUND:
                        raise
            if not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    def _object(self, name: str) -> str:
        return f"{self._objects}/{quote(name, safe='')}"
