"""How kube-controller-manager is run beside an API server."""

from __future__ import annotations

import ssl
from collections.abc import Collection
from pathlib import Path
from typing import Final

import aiohttp

from ctrlruntime.envtest.backends.flags import Flags
from ctrlruntime.envtest.backends.pki import PKI
from ctrlruntime.envtest.backends.ports import LOOPBACK

CONTROLLERS: Final = (
    "clusterrole-aggregation",
    "garbagecollector",
    "namespace",
    "serviceaccount",
    "root-ca-cert-publisher",
)
"""What owner references and a namespace's life need; workloads are left to simulated nodes."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)


def controller_manager_flags(
    *, port: int, kubeconfig: Path, pki: PKI, controllers: Collection[str]
) -> Flags:
    """Return its flags. It signs certificates and tokens with the keys of `pki`."""
    return {
        "kubeconfig": str(kubeconfig),
        "authentication-kubeconfig": str(kubeconfig),
        "authorization-kubeconfig": str(kubeconfig),
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "bind-address": LOOPBACK,
        "secure-port": str(port),
        "tls-cert-file": str(pki.serving_certificate),
        "tls-private-key-file": str(pki.serving_key),
        "service-account-private-key-file": str(pki.service_account_key),
        "root-ca-file": str(pki.trusted),
        "cluster-signing-cert-file": str(pki.ca),
        "cluster-signing-key-file": str(pki.ca_key),
    }


async def is_healthy(port: int, pki: PKI) -> bool:
    """Whether the one with our certificate answers."""
    context = ssl.create_default_context(cadata=pki.ca_data.decode())
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
        try:
            async with session.get(f"https://{LOOPBACK}:{port}/healthz") as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False
