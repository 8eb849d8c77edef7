"""A manager that makes its own webhook certificates, as a process: kubeconfig, namespace, port."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.webhook.options import WebhookOptions
from tests.webhook.webhook_kinds import websites


async def main(kubeconfig: str, namespace: str, port: str) -> None:
    options = ManagerOptions(
        webhook=WebhookOptions(
            host="127.0.0.1", port=int(port), secret_namespace=namespace, hosts=("127.0.0.1",)
        ),
        metrics_bind_address="0",
        health_bind_address="0",
    )
    manager = Manager(await Config.load(Path(kubeconfig)), options)
    manager.webhooks.register(websites().current)
    await manager.start()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
