"""The handler of `kopf_operator` on `ctrlruntime.kopf`, run by `python -m ctrlruntime.kopf run`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from ctrlruntime import kopf
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


@kopf.on.startup()
async def connect(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: object) -> None:
    memo.client = Client.connect(await Config.load(Path(os.environ["KUBECONFIG"])))
    settings.batching.worker_limit = int(os.environ["BENCH_WORKERS"])


@kopf.on.cleanup()
async def close(memo: kopf.Memo, **_: object) -> None:
    await memo.client.close()


@kopf.on.create("bench.ctrlruntime.dev", "v1", "widgets")
async def create(
    spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, memo: kopf.Memo, **_: object
) -> None:
    config_map: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"size": str(spec["size"])},
    }
    kopf.adopt(config_map)
    with contextlib.suppress(AlreadyExists):
        await memo.client.create(config_map, kind=CONFIG_MAP)
    patch.status["ready"] = True
    patch.status["configMap"] = name
