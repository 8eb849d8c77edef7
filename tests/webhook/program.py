"""A manager that makes its own webhook certificates, as a process: kubeconfig, namespace, port."""

from __future__ import annotations

import sys

from ctrlruntime.manager import Manager
from ctrlruntime.webhook.options import WebhookOptions
from tests.support.manager_process import run_manager
from tests.webhook.webhook_kinds import websites


def main(kubeconfig: str, namespace: str, port: str) -> None:
    webhook = WebhookOptions(
        host="127.0.0.1", port=int(port), secret_namespace=namespace, hosts=("127.0.0.1",)
    )
    run_manager(kubeconfig, register, webhook=webhook)


def register(manager: Manager) -> None:
    manager.webhooks.register(websites().current)


if __name__ == "__main__":
    main(*sys.argv[1:])
