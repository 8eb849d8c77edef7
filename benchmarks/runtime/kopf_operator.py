"""The same work by kopf, run by `kopf run` in an environment of its own."""

# mypy: ignore-errors

import base64
import os
import ssl

import aiohttp
import kopf

WORKERS = int(os.environ["BENCH_WORKERS"])
"""Requests for ConfigMaps at a time. kopf's own `worker_limit` is left off: a worker that has nothing to do keeps
its place for 5 s, so that ten of them manage two objects a second."""


class Server:
    """How kopf itself reaches the API server, for the ConfigMaps that it has no call for."""

    info = None
    session = None

    @classmethod
    def open(cls) -> aiohttp.ClientSession:
        if cls.session is None:
            info = cls.info
            ca = base64.b64decode(info.ca_data).decode() if info.ca_data else None
            tls = ssl.create_default_context(cafile=info.ca_path, cadata=ca)
            cls.session = aiohttp.ClientSession(
                info.server,
                headers={"Authorization": f"Bearer {info.token}", "User-Agent": "bench"},
                connector=aiohttp.TCPConnector(ssl=tls, limit=WORKERS),
            )
        return cls.session


@kopf.on.login()
def login(**kwargs):
    Server.info = kopf.login_with_kubeconfig(**kwargs)
    return Server.info


@kopf.on.startup()
async def configure(settings, **_):
    settings.posting.enabled = False


@kopf.on.cleanup()
async def close(**_):
    if Server.session is not None:
        await Server.session.close()


@kopf.on.create("bench.ctrlruntime.dev", "v1", "widgets")
async def create(spec, name, namespace, patch, **_):
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"size": str(spec["size"])},
    }
    kopf.adopt(config_map)
    url = f"/api/v1/namespaces/{namespace}/configmaps"
    async with Server.open().post(url, json=config_map) as response:
        if response.status not in (201, 409):
            raise kopf.TemporaryError(f"the server answered {response.status}", delay=1)
    patch.status["ready"] = True
    patch.status["configMap"] = name
