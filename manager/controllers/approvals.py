"""Approvals by a second person, wired to the runtime: who gives them is recorded, and which count is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ctrlruntime.api import Manifest, Resource, RESTMapping
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.event_dispatch import Handler
from ctrlruntime.controller.predicates import generation_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.controller.slot_gate import SlotOf
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from internal.approvals.counted import NOT_SERVED, STATUS, ApprovalView, CountedEntries
from internal.approvals.judge import Judgement, Recorder
from internal.approvals.key import ApprovalKey
from internal.approvals.reconciler import ApprovalsReconciler
from internal.approvals.rules import RECORD, REQUIRED, ApprovalRules

if TYPE_CHECKING:
    from ctrlruntime.generate.webhook import Webhook

FIELD_MANAGER: Final = "approvals"
CONCERNED: Final = {
    "name": "concerned",
    "expression": "[object, oldObject].exists(o, o != null && ("
    f"has(o.spec) && has(o.spec.{REQUIRED}) || has(o.status) && has(o.status.{STATUS}) || "
    f"has(o.metadata.annotations) && '{RECORD}' in o.metadata.annotations))",
}
"""Which requests are recorded: those for objects that need approvers, or did, and those with a record of their own, which is
not kept. Others never wait for a manager. Parts have no policy in their spec: all requests for them are recorded.
"""
SECONDS: Final = 5
"""How long the API server waits for the record of a request. Without an answer the request is let in, unrecorded."""

Kind = type[Resource[Any, Any]]


@dataclass(frozen=True, slots=True)
class Whole:
    """The object whose policy counts for its parts."""

    kind: Kind
    rules: ApprovalRules
    find: Callable[[Entry], Entry | None]
    """Return that of a part."""
    changed: Handler[Any, Any]
    """Enqueues the parts of one that changes."""


@dataclass(frozen=True, slots=True)
class Approvals:
    """The approvals of one kind, as its controllers need them."""

    view: ApprovalView
    entries: CountedEntries
    """The objects as far as they count."""
    wakeups: RequestSource
    """Objects to reconcile again, once the key of records is there."""

    def instance(self, entry: Entry) -> Entry:
        """Return the whole of a part as far as it counts."""
        return entry if self.view.whole_view is None else self.view.whole_view.counted(entry)


def record_path(mapping: RESTMapping) -> str:
    """Return the path of the webhook that records approvals of a kind."""
    return f"/record-approvals-{mapping.gvk.group.replace('.', '-')}-{mapping.gvk.kind.lower()}"


def record_webhooks(kinds: Sequence[Kind]) -> list[Webhook]:
    """Return what has to be configured in the API server for the records of these kinds."""
    from ctrlruntime.generate.webhook import Webhook  # what only `manager manifests` needs

    found = [(kind.mapping(), _names_approvers(kind)) for kind in kinds]
    return [
        Webhook(
            name=f"approvals.{mapping.plural}.{mapping.gvk.group}",
            mutating=True,
            path=record_path(mapping),
            groups=(mapping.gvk.group,),
            versions=(mapping.gvk.version,),
            resources=(mapping.plural,),
            verbs=("CREATE", "UPDATE", "DELETE"),
            failure_policy="Ignore",
            side_effects="NoneOnDryRun",
            timeout_seconds=SECONDS,
            reinvocation_policy="IfNeeded",
            match_conditions=(CONCERNED,) if whole else (),
        )
        for mapping, whole in found
    ]


def _names_approvers(kind: Kind) -> bool:
    """Whether the spec of a kind has its own policy; parts have that of their whole."""
    spec: Any = kind.model_fields["spec"].annotation
    return "require_approval_by" in spec.model_fields


def approval_key(manager: Manager) -> ApprovalKey | None:
    """Return what reads the key of records, added to the manager; None where no webhooks are served."""
    options = manager.options.webhook
    if options.port == -1:
        return None
    from ctrlruntime.manager.webhooks import own_namespace  # what only serving webhooks needs

    folder = options.certificate_folder
    key = ApprovalKey(
        manager.live_client,
        manager.logger,
        namespace="" if folder else options.secret_namespace or own_namespace(),
        secret=options.secret_name,
        folder=folder,
    )
    manager.add(key)
    return key


def add_approvals(
    manager: Manager,
    kind: Kind,
    rules: ApprovalRules,
    key: ApprovalKey | None,
    whole: Whole | None = None,
    *,
    divided: bool = False,
    slot: SlotOf | None = None,
) -> Approvals:
    """Record who gives approvals of a kind, and report which count. `key`: None without webhooks: then none counts.

    `divided`: where several managers share the objects, each reports on its own. `slot`: that of an object; None: by its name.
    """
    mapping = kind.mapping()
    store = manager.cache.declare(kind).informer.store
    recorder = (lambda: NOT_SERVED) if key is None else key.recorder
    view = view_of(kind, rules, recorder, whole)
    found = Approvals(view, CountedEntries(store, view), RequestSource("approvals that count"))
    reports = RequestSource("approvals to report")
    if key is not None:
        from internal.approvals.webhook import ApprovalWebhook  # what only serving webhooks needs

        webhook = ApprovalWebhook(
            mapping,
            rules,
            recorder,
            manager.live_client,
            utc_now,
            manager.logger,
            partial(_judgement_of_part, kind, view),
        )
        manager.webhooks.handle(record_path(mapping), webhook)

        def again() -> None:
            for entry in store:
                request = Request(entry.name, namespace=entry.namespace)
                found.wakeups.enqueue(request, "the key of records is there")
                reports.enqueue(request, "the key of records is there")

        key.changed.append(again)
    patcher = ObjectPatcher(manager.client, FIELD_MANAGER)
    reconciler = ApprovalsReconciler(store, view, mapping, patcher, manager.recorder, utc_now)
    builder = Builder(manager)
    if divided:
        builder.sharded(slot=slot, cached_whole=True)
    builder = (
        builder.for_(kind)  # with its status: the conditions of another writer may take ours along
        .named(f"{kind.gvk().kind.lower()}-approvals")
        .explicit_permissions()
        .permission(mapping.gvk.group, f"{mapping.plural}/status", "patch")
        .watches_raw(reports)
    )
    if whole is not None:
        builder.watches(whole.kind, whole.changed, predicates=[generation_changed])
    builder.build(reconciler)
    return found


def view_of(
    kind: Kind,
    rules: ApprovalRules,
    recorder: Callable[[], Recorder],
    whole: Whole | None = None,
) -> ApprovalView:
    """Return what counts of the objects of a kind. `whole`: of parts, whose policy counts."""
    view = ApprovalView(_named(kind), rules, recorder)
    if whole is not None:
        view.whole = whole.find
        view.whole_view = ApprovalView(_named(whole.kind), whole.rules, recorder)
    return view


def _named(kind: Kind) -> str:
    gvk = kind.gvk()
    return f"{gvk.kind}.{gvk.group}"


def _judgement_of_part(kind: Kind, view: ApprovalView, manifest: Manifest) -> Judgement | None:
    """Return whose approvals count of a part, from its whole in the cache, or its own record; None for a whole."""
    if view.whole is None:
        return None
    return view.judgement(EntryDecoder(kind.gvk()).decode_manifest(manifest)) or Judgement()
