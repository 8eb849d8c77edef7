"""Which keys of Secrets the parts of a spec name, so that a run is given them and no others."""

from collections.abc import Iterable, Iterator

from apis.cloud import Hook, HTTPRequest, Invariant, UpgradeSettings
from apis.references import SecretKeyRef

KUBECONFIG = "kubeconfig"
"""The output of the infrastructure that opens the instance's cluster."""


def of_requests(requests: Iterable[HTTPRequest | None]) -> list[SecretKeyRef]:
    """Return what the headers of requests are taken from."""
    return [
        header.value_from
        for request in requests
        if request is not None
        for header in request.secret_headers
    ]


def of_cluster(
    kubeconfig_from: SecretKeyRef | None, outputs_secret_name: str
) -> list[SecretKeyRef]:
    """Return what opens the cluster: the Secret that is named, or else the output of the infrastructure."""
    if kubeconfig_from is not None:
        return [kubeconfig_from]
    if outputs_secret_name:
        return [SecretKeyRef(name=outputs_secret_name, key=KUBECONFIG)]
    return []


def requests_of_invariants(invariants: Iterable[Invariant]) -> Iterator[HTTPRequest]:
    """Every request that invariants may send."""
    for invariant in invariants:
        yield invariant.check
        yield from invariant.ensure
        yield from invariant.on_delete


def requests_of_upgrade(steps: UpgradeSettings) -> Iterator[HTTPRequest | None]:
    """Every request that an upgrade may send."""
    yield from (steps.health_check, steps.verify)
    for hook in (steps.backup, steps.migrate):
        if hook is not None:
            yield from _requests_of_hook(hook)


def _requests_of_hook(hook: Hook) -> Iterator[HTTPRequest | None]:
    yield from (hook.http, hook.until)


def unique(references: Iterable[SecretKeyRef]) -> list[SecretKeyRef]:
    """Each reference once, in a stable order."""
    return [
        SecretKeyRef(name=name, key=key)
        for name, key in sorted({(item.name, item.key) for item in references})
    ]
