"""Where supported releases differ: the release that changed it, and what it changed.

A test that shows such a behaviour is marked `@pytest.mark.since("<name in the table>")`. It runs on
the embedded server, which models a current Kubernetes, and on real servers from that release on.
What every supported release does needs no entry.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

from ctrlruntime.envtest.backends import Version


class Change(NamedTuple):
    """`release` is the minor version (28 for 1.28) from which the behaviour holds by default; where
    it is not known, the oldest that was seen to have it."""

    release: int
    reason: str


CHANGES: Final = {
    "aggregated discovery": Change(30, "apidiscovery.k8s.io/v2 is served"),
    "apply by schema": Change(
        36, "a field that is a number or a text does not take the schema from an apply"
    ),
    "apply to scale": Change(36, "Scale objects are applied; older servers break off or refuse"),
    "initial events": Change(
        34, "watches with sendInitialEvents are on by default, as in 1.32 but not in 1.33"
    ),
    "match conditions": Change(28, "webhooks have matchConditions"),
    "order of applied lists": Change(36, "list maps and sets take the order of the applier"),
    "removals by apply": Change(
        36, "the last key of a map or list that an apply gives up is removed"
    ),
    "refused creation in words": Change(36, "the 403 of a creating apply says who may not do what"),
    "selectable fields": Change(32, "definitions have selectableFields"),
    "self subject review": Change(28, "authentication.k8s.io/v1 has SelfSubjectReview"),
    "patch bodies": Change(
        36, "bodies that are no patches are 400; a patch of what is absent fails"
    ),
    "times alone are no write": Change(
        36, "a write that changes only times of managers is dropped"
    ),
    "types of applies": Change(36, "an apply of another kind or version is an invalid object type"),
    "wording of schema errors": Change(
        36, "other words and reasons for types, lengths and list items"
    ),
    "unreadable options": Change(36, "a body that is no DeleteOptions is 400, not 500"),
    "constrained impersonation": Change(
        36, "impersonate-on:MODE:VERB and impersonate:MODE are asked about first"
    ),
    "dots in labels": Change(36, "a subdomain where a label is required must not contain dots"),
    "dry runs of addresses": Change(36, "a dry run shows the network's address and reserves none"),
    "impersonation of nobody": Change(36, "headers without a user are 400, not 500"),
    "index of OpenAPI v3": Change(36, "the index is text/plain"),
    "names of services": Change(36, "a Service's name is a RFC 1123 label: a digit may come first"),
    "replacing what is absent": Change(36, "JSON patch: `replace` adds a member"),
    "numbers in words": Change(36, "a number beyond its type is named with the Go type"),
    "missing roles": Change(
        36, "a binding to a missing role is what is not found; some releases before name the role"
    ),
    "emptied by their applier": Change(
        36, "what an apply leaves of maps and lists that it empties"
    ),
}


def has(change: str, version: Version) -> bool:
    """Return whether servers of a release, (1, 36) for 1.36, behave as the table says."""
    return version >= (1, CHANGES[change].release)


def lacking(item: pytest.Item, version: Version) -> str:
    """Return what servers of a release lack for a test, or an empty text."""
    for mark in item.iter_markers("since"):
        change = CHANGES[mark.args[0]]
        if not has(mark.args[0], version):
            return f"since 1.{change.release}: {change.reason}"
    return ""
