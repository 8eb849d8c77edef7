"""Which keys of Secrets the parts of a spec name, so that a run is given them and no others."""

from collections.abc import Iterable, Iterator

from apis.cloud import Hook, HTTPRequest, Invariant, UpgradeSettings
from apis.references import SecretKeyRef
from internal.named_secrets import NamedKey, Purpose, named_keys

KUBECONFIG = "kubeconfig"
"""The output of the infrastructure that opens the instance's cluster."""


def of_requests(requests: Iterable[HTTPRequest | None]) -> list[NamedKey]:
    """Return what the headers of requests are taken from, each once."""
    given = [request for request in requests if request is not None]
    found = (header.value_from for request in given for header in request.secret_headers)
    return sorted(set(named_keys(found, Purpose.REQUESTS)))


def of_cluster(kubeconfig_from: SecretKeyRef | None, outputs_secret_name: str) -> list[NamedKey]:
    """Return what opens the cluster: the Secret that is named, or else the output of the infrastructure."""
    if kubeconfig_from is not None:
        return named_keys([kubeconfig_from], Purpose.CLUSTER)
    if outputs_secret_name:
        return [NamedKey(outputs_secret_name, KUBECONFIG, Purpose.CLUSTER)]
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
