"""Where an older API server differs: the release that changed it, and what it changed.

A test that shows such a behaviour is marked `@pytest.mark.since("<name in the table>")`. It runs on
the embedded server, which models a current Kubernetes, and on real servers from that release on.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Change(NamedTuple):
    """`release` is the minor version (27 for 1.27) from which the behaviour holds by default; where
    it is not known, the oldest that was seen to have it."""

    release: int
    reason: str


CHANGES: Final = {
    "addresses of dry runs": Change(23, "a dry run of a Service shows an address"),
    "OpenAPI v3": Change(27, "/openapi/v3 is served"),
    "aggregated discovery": Change(30, "apidiscovery.k8s.io/v2 is served"),
    "apply by schema": Change(
        36, "a field that is a number or a text does not take the schema from an apply"
    ),
    "apply to scale": Change(36, "Scale objects are applied; older servers break off or refuse"),
    "autoscaling/v2": Change(23, "autoscaling/v2 is served"),
    "batch/v1 CronJob": Change(21, "batch/v1 has CronJobs"),
    "CEL rules": Change(25, "x-kubernetes-validations is evaluated; older servers drop it"),
    "dual-stack services": Change(23, "ipFamilies and ipFamilyPolicy are always filled in"),
    "field validation": Change(25, "the server checks fieldValidation and sends warnings"),
    "initial events": Change(32, "watches with sendInitialEvents are on by default"),
    "job labels": Change(27, "labels of jobs carry the prefix batch.kubernetes.io/"),
    "match conditions": Change(28, "webhooks have matchConditions"),
    "missing version in words": Change(24, "the message says 0 where it said 0x0"),
    "names as labels": Change(21, "namespaces carry the label kubernetes.io/metadata.name"),
    "policy/v1": Change(21, "policy/v1 is served"),
    "order of applied lists": Change(36, "list maps and sets take the order of the applier"),
    "removals by apply": Change(
        36, "the last key of a map or list that an apply gives up is removed"
    ),
    "refused creation in words": Change(36, "the 403 of a creating apply says who may not do what"),
    "selectable fields": Change(32, "definitions have selectableFields"),
    "self subject review": Change(28, "authentication.k8s.io/v1 has SelfSubjectReview"),
    "subresource of managers": Change(22, "managedFields name the subresource of a write"),
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
    "webhook failures in words": Change(24, "the message begins with `failed to call webhook`"),
    "constrained impersonation": Change(
        36, "impersonate-on:MODE:VERB and impersonate:MODE are asked about first"
    ),
    "dots in labels": Change(36, "a subdomain where a label is required must not contain dots"),
    "dry runs of addresses": Change(36, "a dry run shows the network's address and reserves none"),
    "evictions of pods that do not run": Change(27, "no budget holds a pending Pod"),
    "impersonation of nobody": Change(36, "headers without a user are 400, not 500"),
    "index of OpenAPI v3": Change(36, "the index is text/plain"),
    "names of services": Change(36, "a Service's name is a RFC 1123 label: a digit may come first"),
    "replacing what is absent": Change(
        36, "JSON patch: `replace` adds a member; Debian's builds have another library"
    ),
    "numbers in words": Change(36, "a number beyond its type is named with the Go type"),
    "missing roles": Change(36, "a binding to a missing role is what is not found"),
    "deleted services": Change(23, "a DELETE of a Service answers with the object"),
    "empty texts": Change(
        21, "a custom resource keeps an empty text; Debian's build of 1.20 takes it for null"
    ),
    "emptied by their applier": Change(
        36, "maps and lists that an apply empties; Debian builds 1.36 with an older library"
    ),
    "emptied owners": Change(
        36, "who owns a map with nothing in it is not given all of it by the next apply"
    ),
    "owners of resets": Change(22, "what a write leaves alone is not owned by it"),
    "references as a whole": Change(22, "references and selectors are atomic for an apply"),
    "several conflicting paths": Change(36, "each of several conflicts names its own path"),
    "structures given up": Change(
        21, "an object that an apply gives up goes with what the server filled in beside"
    ),
    "templates of stateful sets": Change(24, "pod templates of StatefulSets are validated"),
    "times of owners": Change(36, "times alone are no write; owners that change nothing have none"),
}
