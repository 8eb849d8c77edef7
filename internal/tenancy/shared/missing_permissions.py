"""Rights that the API server denied: what to add, who waits for it, and who tries again.

A right is missing for many tenants at once. One of them tries again on behalf of all; the others
wait without a request and are woken when it succeeds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from apis.tenancy import GROUP, Tenant
from ctrlruntime.api.conditions import (
    LONGEST_MESSAGE,
    Condition,
    Conditions,
    find_condition,
    set_condition,
)
from ctrlruntime.api.kinds import GroupKind, RESTMapping
from ctrlruntime.backoff import exponential
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.queue import Request
from ctrlruntime.resources.readiness import EXISTENCE
from internal.tenancy.shared.privileges import Privileges

AGGREGATE: Final = f"{GROUP}/aggregate-to-manager"
"""Label of ClusterRoles whose rules become the manager's own."""
GRANTED: Final = "PermissionsGranted"
"""Condition of tenants and templates: there once a right was missing."""

VERBS: Final = ("create", "delete", "list", "patch", "update", "watch")
"""What the manager does with the kinds that templates name: what it watches whole it never gets."""
WRITES: Final = ("create", "delete", "patch", "update")
"""What is done with the rights of a service account; reads are the manager's."""

FIRST_RETRY, LAST_RETRY = 1.0, 30.0

_DENIED = re.compile(r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"')
_IMPERSONATE: Final = ("impersonate", "impersonate:", "impersonate-on:")
"""Verbs of a missing right to impersonate; since Kubernetes 1.36 the server checks first a right for
the kind of identity (`impersonate:serviceaccount`) and the request (`impersonate-on:serviceaccount:patch`)."""
_ACCOUNT = "system:serviceaccount:"


def verbs_for(kind: GroupKind) -> tuple[str, ...]:
    """Return what the manager does with a kind that templates name.

    Of kinds that are watched as metadata only, an object with fields that are to be left as they are
    is read first.
    """
    return tuple(sorted((*VERBS, "get"))) if kind in EXISTENCE else VERBS


def user_of(namespace: str, account: str) -> str:
    """Return the user name of a service account."""
    return f"{_ACCOUNT}{namespace}:{account}"


def account_of(tenant: Tenant, privileges: Privileges) -> str:
    """Return the service account that the tenant's resources are written by; empty: the manager itself.

    Who writes the tenant may name one, and with a default cannot have none.
    """
    return tenant.spec.service_account_name or privileges.default_account


def impersonated(tenant: Tenant, privileges: Privileges) -> str | None:
    """Whom to act for when the tenant's resources are written; None: no impersonation."""
    account = account_of(tenant, privileges)
    return user_of(tenant.metadata.namespace or "", account) if account else None


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A missing right: to work with one kind or, with `impersonate`, to act for an account.

    `account` is `namespace/name` of the service account in use, empty for the manager itself.
    """

    group: str
    plural: str
    namespaced: bool = True
    account: str = ""
    namespace: str = ""
    """Where an account lacks it; empty for the manager, who needs it everywhere."""
    impersonate: bool = False
    verbs: tuple[str, ...] = field(default=VERBS, compare=False)
    """What to allow the manager."""
    verb: str = field(default="", compare=False)
    """What was denied."""
    user: str = field(default="", compare=False)
    """Whom the server denied it."""

    @property
    def resource(self) -> str:
        """`deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def advice(self) -> str:
        """What is missing, and the command that adds it, ready to paste."""
        return f"{self.summary}. To allow it: {self._command()}"

    @property
    def summary(self) -> str:
        """Who may not do what."""
        if self.impersonate:
            return f"The manager may not impersonate the service account {self.account}"
        who = f"The service account {self.account}" if self.account else "The manager"
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{who} may not {self.verb} {self.resource}{where}"

    def _command(self) -> str:
        if self.impersonate:
            namespace, _, name = self.account.partition("/")
            role = f"--verb=impersonate --resource=serviceaccounts --resource-name={name}"
            return _bound("role", f"impersonate-{name}", namespace, role, _subject(self.user))
        if not self.account:
            name = f"manager-{self.resource}"
            return (
                f"kubectl create clusterrole {name} --verb={','.join(self.verbs)} "
                f"--resource={self.resource} && kubectl label clusterrole {name} {AGGREGATE}=true"
            )
        role = f"--verb={','.join(WRITES)} --resource={self.resource}"
        sort = "role" if self.namespaced else "clusterrole"
        name = f"{self.account.replace('/', '-')}-{self.resource}"
        subject = f"--serviceaccount={self.account.replace('/', ':')}"
        return _bound(sort, name, self.namespace, role, subject)


def _bound(sort: str, name: str, namespace: str, rules: str, subject: str) -> str:
    where = f" -n {namespace}" if sort == "role" else ""
    return (
        f"kubectl{where} create {sort} {name} {rules} && "
        f"kubectl{where} create {sort}binding {name} --{sort}={name} {subject}"
    )


def _subject(user: str) -> str:
    if user.startswith(_ACCOUNT):
        return f"--serviceaccount={user.removeprefix(_ACCOUNT)}"
    return f"--user={user}"


def needed(mapping: RESTMapping, *, account: str = "", namespace: str = "") -> Grant:
    """Return the right to work with a kind, as it would be reported missing."""
    return Grant(
        mapping.gvk.group,
        mapping.plural,
        mapping.namespaced,
        account,
        namespace if account and mapping.namespaced else "",
        verbs=verbs_for(mapping.gvk.group_kind),
    )


def impersonation(account: str, verb: str = "", user: str = "") -> Grant:
    """Return the right to act for a service account, `namespace/name`."""
    return Grant("", "serviceaccounts", account=account, impersonate=True, verb=verb, user=user)


def missing(
    error: Exception | None, mapping: RESTMapping, *, account: str = "", namespace: str = ""
) -> Grant | None:
    """Return the right that a refusal names as missing; None for every other reason to refuse.

    Quotas, admission and Pod security answer Forbidden too, but no role would mend that.
    """
    if not isinstance(error, Forbidden):
        return None
    denied = _DENIED.search(error.message)
    if denied is None:
        return None
    user, verb = denied["user"], denied["verb"]
    if verb == _IMPERSONATE[0] or verb.startswith(_IMPERSONATE[1:]):
        # The right `impersonate` on the account covers every request, on every release.
        return impersonation(account, verb, user)
    if denied["resource"].partition("/")[0] != mapping.plural:
        return None
    grant = needed(mapping, account=account, namespace=namespace)
    return replace(grant, verb=verb, user=user)


@dataclass(slots=True)
class Grants:
    """Which tenants miss which rights. Kept in memory: what is missing is found anew."""

    wake_tenant: Callable[[Request, str], None]
    wake_template: Callable[[Request], None]
    _missing: dict[Request, frozenset[Grant]] = field(default_factory=dict)
    _template: dict[Request, Request] = field(default_factory=dict)
    _waiting: dict[Grant, set[Request]] = field(default_factory=dict)
    _trying: dict[Grant, Request] = field(default_factory=dict)
    _tries: Counter[Grant] = field(default_factory=Counter)

    @property
    def denies_any(self) -> bool:
        """Whether a right is known to be missing."""
        return bool(self._trying)

    def denied(self, tenant: Request, *grants: Grant) -> Grant | None:
        """Return the first of these rights that is known to be missing while another tenant tries."""
        for grant in grants:
            trying = self._trying.get(grant)
            if trying is not None and trying != tenant:
                return next(known for known in self._missing[trying] if known == grant)
        return None

    def report(
        self,
        tenant: Request,
        template: Request,
        found: Iterable[Grant],
        *,
        unseen: Collection[Grant] = (),
    ) -> float | None:
        """Record what a pass over a tenant found missing.

        Return the seconds until it has to try again for all that wait; None if another tenant does, or
        nothing is missing.

        `unseen`: rights to watch kinds. Their informers try for them, and wake all that wait.
        """
        now = frozenset((*found, *unseen))
        before = self._missing.pop(tenant, frozenset())
        if now:
            self._missing[tenant] = now
            self._template[tenant] = template
        else:
            self._template.pop(tenant, None)
        for grant in before - now:
            self._settled(grant, tenant)
        for grant in now:
            self._waiting.setdefault(grant, set()).add(tenant)
            self._trying.setdefault(grant, tenant)
        if before != now:
            self.wake_template(template)
        tried = [grant for grant in now if self._trying[grant] == tenant]
        self._tries.update(tried)
        return min((self._delay(grant) for grant in tried if grant not in unseen), default=None)

    def forget(self, tenant: Request) -> None:
        """Forget a tenant that is gone."""
        template = self._template.get(tenant)
        if template is not None:
            self.report(tenant, template, ())

    def of_template(self, template: Request) -> frozenset[Grant]:
        """Return what the tenants of a template miss."""
        return frozenset(
            grant
            for tenant, made_from in self._template.items()
            if made_from == template
            for grant in self._missing[tenant]
        )

    def _delay(self, grant: Grant) -> float:
        return exponential(FIRST_RETRY, LAST_RETRY, self._tries[grant] - 1)

    def _settled(self, grant: Grant, tenant: Request) -> None:
        """Requeue the tenants that waited for one to find out whether a right was granted: it was."""
        waiting = self._waiting[grant]
        waiting.discard(tenant)
        if self._trying.get(grant) == tenant:
            del self._trying[grant]
            del self._tries[grant]
            for other in sorted(waiting):
                self.wake_tenant(other, "a right may have been granted")
        if not waiting:
            del self._waiting[grant]


def _advice(grants: Sequence[Grant]) -> str:
    """Whole commands, one a line, as many as fit in a message; the first is always there."""
    shown = [grant.advice for grant in grants]
    while True:
        rest = len(grants) - len(shown)
        message = "\n".join([*shown, f"and {rest} more"] if rest else shown)
        if len(message) <= LONGEST_MESSAGE or len(shown) <= 1:
            return message
        shown.pop()


def tell(conditions: Conditions, grants: Collection[Grant], generation: int, now: datetime) -> None:
    """Say in a condition which rights are missing, or that they no longer are."""
    before = find_condition(conditions, GRANTED)
    if not grants and before is None:
        return
    message = _advice(sorted(grants))
    condition = Condition.model_validate(
        {
            "type": GRANTED,
            "status": "False" if grants else "True",
            "reason": "MissingPermission" if grants else "Granted",
            "message": message or "Nothing is missing any more.",
        }
    )
    condition.observed_generation = generation
    set_condition(conditions, condition, now)
