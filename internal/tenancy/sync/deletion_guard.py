"""The deletion guard: how many tenants may be deleted because of their rows, and what it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from apis.tenancy import GROUP, Tenant
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.gate import Cause, Evidence, Removal, Victim, unused_digest
from ctrlruntime.gate.permit import SHOWN
from internal.removal_holds import refused_approval
from internal.tenancy.rows.row import Reading
from internal.tenancy.shared.policies import ALLOW_DELETE
from internal.tenancy.sync.plan_inputs import ExistingTenant
from internal.tenancy.sync.removal_window import RecentRemovals

TENANT: Final = GroupKind(GROUP, Tenant.gvk().kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How much may be removed within the window: `percent` of the rows, but always `rows` of them.

    `recent` are the rows removed within the window so far, `recent_values` those that lost objects by changed values. `allow_delete` is the text of the
    annotation: the digest of the set that is approved. `released` are names of tenants that such an approval has released already.
    """

    percent: int = 20
    rows: int = 1
    window: timedelta = timedelta(0)
    recent: RecentRemovals = field(default_factory=RecentRemovals)
    recent_values: RecentRemovals = field(default_factory=RecentRemovals)
    allow_empty: bool = False
    allow_delete: str | None = None
    registry: str = "NAME -n NAMESPACE"
    """The registry in a kubectl command."""
    released: frozenset[str] = frozenset()
    long_gone: frozenset[str] = frozenset()
    """Templates that have been gone for longer than their grace."""
    templates_approved: bool = False
    """Whether tenants may go with any template."""
    used: Mapping[str, int] = field(default_factory=dict)
    """When each approval was used, by digest: it counts once."""

    def members(self, uids: Iterable[str]) -> int:
        """Return how many rows the registry had when the window began; `uids`: of those that have tenants now."""
        return len({*uids} | self.recent.uids) + self.recent.unnamed

    def allowed(self, of_rows: int) -> int:
        """Return how many of the rows may lose objects within the window."""
        return max(self.rows, of_rows * self.percent // 100)


class GuardReason(StrEnum):
    """What the guard stopped."""

    EMPTY_RESULT = "EmptyResult"
    TOO_MANY_DELETIONS = "TooManyDeletions"
    UNIDENTIFIED_ROWS = "UnidentifiedRows"
    TEMPLATE_GONE = "TemplateGone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Deletions that the guard holds back."""

    reason: GuardReason
    tenants: int
    of_tenants: int
    rows: int
    of_rows: int
    allowed_rows: int
    unidentified: int = 0
    """Rows without a usable uid."""
    recent_rows: int = 0
    """Rows removed within the window before."""
    unknown: str = ""
    """Why it is unknown what else was removed within the window."""
    again: datetime | None = None
    """When the first of those no longer counts."""
    resource: str = ""
    """The entry of a template whose objects would go because of changed values, or the templates that are gone."""
    digest: str = ""
    """Names the set that is held; an approval repeats it."""
    names: tuple[str, ...] = ()
    """The first ten of `of_names`: tenants, with the entries whose objects they would lose."""
    of_names: int = 0
    refusal: str = ""
    """Why the annotation that is there does not approve the set."""
    registry: str = ""

    def of(self, removals: Sequence[Removal], names: Iterable[str], guard: Guard) -> Held:
        """Return this with the set that is held, and what the guard has for its approval."""
        shown = sorted(names)
        digest = unused_digest(removals, guard.used)
        return replace(
            self,
            digest=digest,
            names=tuple(shown[:SHOWN]),
            of_names=len(shown),
            refusal=refused_approval(guard.allow_delete, digest, guard.used),
            registry=guard.registry,
        )

    def is_approved(self, guard: Guard) -> bool:
        """Whether the approval of the guard is of this very set."""
        return bool(self.digest) and guard.allow_delete == self.digest

    @property
    def command(self) -> str:
        """The command that approves the set."""
        return (
            f"kubectl annotate tenantregistry {self.registry} --overwrite "
            f"{ALLOW_DELETE}={self.digest}"
        )

    @property
    def message(self) -> str:
        """The numbers, what to do, and the names."""
        what = "would be deleted, none was"
        if self.resource and self.reason is GuardReason.TOO_MANY_DELETIONS:
            what = "would lose objects, none did; these rows are not written to their tenants"
        return (
            f"{self._cause}; {self.tenants} of {self.of_tenants} tenants {what}. {self._refusal}"
            f"{self._remedy} run `{self.command}`. Held: {self._named}"
        )

    @property
    def _named(self) -> str:
        more = self.of_names - len(self.names)
        return ", ".join(self.names) + (f" and {more} more" if more else "")

    @property
    def _refusal(self) -> str:
        return f"{self.refusal}. " if self.refusal else ""

    @property
    def _cause(self) -> str:
        match self.reason:
            case GuardReason.EMPTY_RESULT:
                return "The query returned no rows"
            case GuardReason.TEMPLATE_GONE:
                return f"{self.resource} is gone"
            case GuardReason.UNIDENTIFIED_ROWS:
                return (
                    f"{self.rows} of {self.of_rows} rows are gone, and {self.unidentified} rows "
                    "without a usable uid may be the same rows"
                )
            case GuardReason.TOO_MANY_DELETIONS:
                gone = f"{self.rows} of {self.of_rows} rows are gone or inactive"
                if self.resource:
                    gone = f"Changed values of {self.rows} of {self.of_rows} rows would remove {self.resource}"
                if self.unknown:
                    return f"{gone}, and {self.unknown}"
                if not self.recent_rows:
                    return f"{gone}, {self.allowed_rows} may go at once"
                return (
                    f"{gone} and {self.recent_rows} were removed before, {self.allowed_rows} may go "
                    "within the window of the guard"
                )

    @property
    def _remedy(self) -> str:
        if self.reason is GuardReason.UNIDENTIFIED_ROWS:
            return "Correct the uids of those rows or set the rows inactive; or, if this is meant,"
        if self.reason is GuardReason.TEMPLATE_GONE:
            return "Apply it again, and it takes them over; or, if this is meant,"
        if self.again is not None:
            return f"It is decided again at {self.again:%Y-%m-%dT%H:%M:%SZ}. If this is meant,"
        return "If this is meant,"


def removals_of(tenants: Iterable[ExistingTenant], cause: Cause) -> list[Removal]:
    """Return the removals of whole tenants."""
    return [removal(tenant.name, tenant.object_uid, cause) for tenant in tenants]


def removal(name: str, uid: str, cause: Cause) -> Removal:
    """Return the removal of a tenant, or of an entry of one; a tenant counts as holding state."""
    return Removal(
        victim=Victim(TENANT, "", name),
        uid=uid,
        holds_state=True,
        cause=cause,
        evidence=Evidence.CERTAIN,
    )


def guarded(
    reading: Reading,
    asked: Sequence[ExistingTenant],
    tenants: Sequence[ExistingTenant],
    guard: Guard,
    decided: Set[str] = frozenset(),
) -> tuple[Held | None, frozenset[str]]:
    """Return what the guard holds of the tenants `asked` for, and the names of those tenants.

    `decided` are names that it let pass before and that only wait for their replacements: nothing but
    an empty result holds them again. A row without a usable uid may be the row of any uid that is absent. While there is one, tenants
    of absent uids are held, as none can be distinguished from a renamed one; inactive rows are clear.
    """
    if not asked:
        return None, frozenset()
    before = guard.recent | guard.recent_values
    of_rows = guard.members(tenant.uid for tenant in tenants)
    allowed = guard.allowed(of_rows)

    def held(reason: GuardReason, found: Sequence[ExistingTenant]) -> tuple[Held, frozenset[str]]:
        numbers = Held(
            reason=reason,
            tenants=len(found),
            of_tenants=len(tenants),
            rows=len({tenant.uid for tenant in found}),
            of_rows=of_rows,
            allowed_rows=allowed,
            unidentified=reading.unidentified,
            recent_rows=before.rows,
            unknown=before.unknown,
            again=None if before.since is None else before.since + guard.window,
        )
        names = frozenset(tenant.name for tenant in found)
        return numbers.of(removals_of(found, Cause.ROW_GONE), names, guard), names

    empty = reading.total == 0 and not guard.allow_empty
    if empty:
        return held(GuardReason.EMPTY_RESULT, asked)
    asked = [tenant for tenant in asked if tenant.name not in decided]
    fresh = [tenant for tenant in asked if tenant.uid not in guard.recent.uids]
    rows = len({tenant.uid for tenant in fresh} - before.uids)
    if fresh and not before.leaves_room(rows, allowed=allowed, of_rows=of_rows):
        return held(GuardReason.TOO_MANY_DELETIONS, fresh)
    absent = [tenant for tenant in asked if tenant.uid not in reading.inactive]
    if reading.unidentified and absent:
        return held(GuardReason.UNIDENTIFIED_ROWS, absent)
    return None, frozenset()
