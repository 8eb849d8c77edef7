"""The webhooks of a manager under test: on loopback, with a certificate the API server trusts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.envtest.backends.ports import LOOPBACK, free_port
from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.process import replace_file
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.envtest.webhooks import ConfigurationSource, point_at
from ctrlruntime.generate.crd import crd_of
from ctrlruntime.generate.webhook import webhook_configurations, webhook_conversion, webhooks_of
from ctrlruntime.webhook.options import WebhookOptions

__all__ = ["LocalWebhooks"]

Kind = type[Resource[Any, Any]]


class LocalWebhooks:
    """Webhooks that an API server calls on this machine.

        async with LocalWebhooks(env) as hooks:
            await hooks.install(Website)
            manager = Manager(env.config(), ManagerOptions(webhook=hooks.options))
            manager.webhooks.register(Website)

    Configurations are made of what kinds declare, or read from manifests and files, and called by
    URL. They are removed at the end.
    """

    def __init__(self, environment: Environment, folder: Path | None = None) -> None:
        self._environment = environment
        self._folder = folder or environment.folder / "webhooks"
        self._authority = Authority("envtest webhooks")
        self._installed: list[Manifest] = []
        self.options = WebhookOptions(
            host=LOOPBACK, port=free_port(), certificate_folder=self._folder
        )
        """For the manager: address and certificate."""

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.options.port}"

    async def __aenter__(self) -> LocalWebhooks:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.renew()
        return self

    async def __aexit__(self, *_: object) -> None:
        for manifest in self._installed:
            await self._environment.uninstall_webhooks(manifest)

    def renew(self) -> None:
        """Put another certificate into the folder, of the authority that the API server trusts."""
        certificate, key = self._authority.issue([LOOPBACK, "localhost"])
        replace_file(self._folder / "tls.crt", certificate)
        replace_file(self._folder / "tls.key", key)

    async def install(self, *sources: Kind | ConfigurationSource) -> None:
        """Install the configurations of kinds, manifests or files, and call them here."""
        for source in sources:
            for manifest in _configurations(source):
                await self._environment.install_webhooks(
                    manifest, url=self.url, ca_data=self._authority.ca_data
                )
                if isinstance(manifest, dict):
                    self._installed.append(manifest)

    def definition(self, *versions: Kind) -> Manifest:
        """Return the definition of a kind whose versions are converted here, for ``install_crds``."""
        crd = crd_of(versions)
        crd["spec"]["conversion"] = webhook_conversion()
        return point_at(crd, self.url, self._authority.ca_data)


def _configurations(source: Kind | ConfigurationSource) -> list[ConfigurationSource]:
    if not isinstance(source, type):
        return [source]
    mapping = source.mapping()
    name = f"{mapping.gvk.version}.{mapping.plural}.{mapping.gvk.group}"
    hooks = webhooks_of(source)
    if not hooks:
        raise ValueError(f"{source.__name__} declares no webhooks")
    return list(webhook_configurations(hooks, mutating_name=name, validating_name=name))
