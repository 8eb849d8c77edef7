"""TenantRegistry: the table whose active rows become tenants."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema

from apis.approvals import ApprovalsStatus, RequireApprovalBy
from apis.columns import AGE, condition_column, count_columns
from apis.waiting import ChangesWaiting
from apis.windows import MaintenanceWindow
from ctrlruntime.api import (
    CEL,
    ApiModel,
    Conditions,
    Int32,
    ListSet,
    Resource,
    Time,
    parse_duration,
)

from .common import GROUP, VERSION, SecretKeyRef

__all__ = [
    "ColumnMapping",
    "DatabaseTLS",
    "DeletionGuard",
    "MySQLSource",
    "PostgreSQLSource",
    "RemovedRows",
    "RowCounts",
    "SQLiteSource",
    "SourceType",
    "TLSMode",
    "TenantRegistry",
    "TenantRegistrySource",
    "TenantRegistrySpec",
    "TenantRegistryStatus",
    "ValueMappings",
    "WriteBack",
]

Column = Annotated[str, Field(min_length=1, max_length=64)]
Table = Annotated[str, Field(min_length=1, max_length=129)]
LONGEST_WINDOW = timedelta(days=30)
PageSize = Annotated[Int32, Field(ge=1, le=10_000)]


class SourceType(StrEnum):
    """The kinds of data source that the manager brings; packages may register more."""

    MYSQL = "mysql"
    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


class TLSMode(StrEnum):
    """What a TLS connection checks."""

    REQUIRED = "Required"
    VERIFY_CA = "VerifyCA"
    VERIFY_IDENTITY = "VerifyIdentity"


class DatabaseTLS(ApiModel):
    """TLS of the connection to the database."""

    mode: TLSMode = TLSMode.VERIFY_IDENTITY
    """Required: encrypt only. VerifyCA: check the certificate's issuer. VerifyIdentity: and its name."""
    ca_ref: SecretKeyRef | None = None
    """PEM bundle of the authorities to trust; default: those of the system."""
    cert_ref: SecretKeyRef | None = None
    """PEM certificate to present to the database."""
    key_ref: SecretKeyRef | None = None
    """PEM key of that certificate."""


class MySQLSource(ApiModel):
    """A table or view of a MySQL-compatible database."""

    host: Annotated[str, Field(min_length=1, max_length=253)]
    """Host name or address of the database."""
    port: Annotated[Int32, Field(ge=1, le=65535)] = 3306
    """TCP port of the database."""
    username: Annotated[str, Field(min_length=1, max_length=128)]
    """User to connect as; it needs SELECT on the table and nothing else."""
    password_ref: SecretKeyRef | None = None
    """The user's password, in a Secret in the registry's namespace with the label
    `tenancy.ctrlruntime.dev/database: "true"`; it is read again when it changes."""
    database: Annotated[str, Field(min_length=1, max_length=64)]
    """Name of the database."""
    table: Table
    """Name of the table or view, with or without its database."""
    tls: DatabaseTLS | None = None
    """TLS of the connection; without it the connection is plain."""
    connect_timeout_seconds: Annotated[Int32, Field(ge=1, le=300)] = 5
    """How long connecting may take."""
    read_timeout_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 30
    """How long the database may take to answer, and to send each page."""
    statement_timeout_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 60
    """After how long the database itself ends the query."""
    pool_size: Annotated[Int32, Field(ge=1, le=100)] = 3
    """How many connections are kept at most."""
    page_size: PageSize = 1000
    """How many rows are fetched at a time."""


class PostgreSQLSource(ApiModel):
    """A table or view of a PostgreSQL database."""

    host: Annotated[str, Field(min_length=1, max_length=253)]
    """Host name or address of the database, which may be a replica."""
    port: Annotated[Int32, Field(ge=1, le=65535)] = 5432
    """TCP port of the database."""
    username: Annotated[str, Field(min_length=1, max_length=128)]
    """User to connect as; it needs SELECT on the table and nothing else."""
    password_ref: SecretKeyRef | None = None
    """The user's password, in a Secret in the registry's namespace with the label
    `tenancy.ctrlruntime.dev/database: "true"`; it is read again when it changes."""
    database: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the database."""
    table: Table
    """Name of the table or view, with or without its schema, in the case that the database has."""
    tls: DatabaseTLS | None = None
    """TLS of the connection; without it the connection is plain."""
    connect_timeout_seconds: Annotated[Int32, Field(ge=1, le=300)] = 5
    """How long connecting may take."""
    read_timeout_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 30
    """How long the database may take to answer, and to send each page."""
    statement_timeout_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 60
    """After how long the database itself ends the query."""
    page_size: PageSize = 1000
    """How many rows are handled at a time."""
    notify_channel: Annotated[str | None, Field(min_length=1, max_length=63)] = None
    """Channel to LISTEN on: a NOTIFY leads to a query at once. Without it rows are read every
    syncInterval only."""


class SQLiteSource(ApiModel):
    """A table or view of an SQLite file. The manager must allow these."""

    path: Annotated[str, Field(min_length=1, max_length=4096)]
    """Path of the database file, as the manager sees it."""
    table: Table
    """Name of the table or view."""
    page_size: PageSize = 1000
    """How many rows are fetched at a time."""


class WriteBack(ApiModel):
    """A column of the table that the state of each row's tenants is written to."""

    column: Column
    """The column; no mapping may read it."""
    username: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    """User to connect as; it needs SELECT on the columns of the uid and of the state, UPDATE on the latter, and
    nothing else. Required unless the type is sqlite."""
    password_ref: SecretKeyRef | None = None
    """The user's password, in a Secret like that of the source."""
    interval_seconds: Annotated[Int32, Field(ge=1, le=3600)] = 10
    """Seconds between two UPDATEs of up to 500 rows each."""


def _closed(schema: dict[str, Any]) -> None:
    """Fields of other sources come from packages, with their own schema; none is free."""
    schema.pop("additionalProperties", None)


class TenantRegistrySource(
    ApiModel,
    rules=(
        CEL(
            "self.type != 'mysql' || has(self.mysql)",
            message="mysql is required when type is mysql",
            reason="FieldValueRequired",
            field_path=".mysql",
        ),
        CEL(
            "self.type != 'postgresql' || has(self.postgresql)",
            message="postgresql is required when type is postgresql",
            reason="FieldValueRequired",
            field_path=".postgresql",
        ),
        CEL(
            "self.type != 'sqlite' || has(self.sqlite)",
            message="sqlite is required when type is sqlite",
            reason="FieldValueRequired",
            field_path=".sqlite",
        ),
    ),
):
    """Where the rows come from, and how often they are read."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_closed)

    type: Annotated[str, Field(json_schema_extra={"enum": [each.value for each in SourceType]})]
    """Kind of data source; the field of the same name describes it."""
    mysql: MySQLSource | None = None
    """The table, if type is mysql."""
    postgresql: PostgreSQLSource | None = None
    """The table, if type is postgresql."""
    sqlite: SQLiteSource | None = None
    """The table, if type is sqlite."""
    sync_interval: Annotated[
        str,
        Field(max_length=10, pattern=r"^[0-9]+(s|m|h)$"),
        CEL("duration(self) >= duration('1s')", message="syncInterval must be at least 1s"),
    ] = "30s"
    """How often the rows are read: a whole number of seconds, minutes or hours, such as 30s."""
    write_back: WriteBack | None = None
    """Where the state of each row's tenants is written to; default: nothing is ever written."""

    @property
    def described(self) -> object:
        """What the field of the source's type holds; None if it is not there.

        It is of the type that the field has, or a dict for types that packages register.
        """
        if self.type in {each.value for each in SourceType}:
            return getattr(self, self.type)
        return (self.model_extra or {}).get(self.type)

    @property
    def sync_period(self) -> timedelta:
        """``sync_interval`` as a span of time. Raises ValueError if it is out of range."""
        return parse_duration(self.sync_interval)


class ValueMappings(ApiModel):
    """The columns with a meaning of their own."""

    uid: Column
    """Column with the tenant's unique id."""
    activate: Column
    """Column that holds whether the tenant is active: 1, true, TRUE, True, yes, YES or Yes; or inactive: 0,
    false, FALSE, False, no, NO, No, empty or NULL. Any other value leaves the row's tenants as they are."""
    host_or_url: Column | None = None
    """Column with the tenant's host name or URL; adds the variables hostOrUrl and host."""


class ColumnMapping(ApiModel):
    """A mapping with options. An unknown option is refused: a misspelt `sensitive` must not pass."""

    model_config = ConfigDict(extra="forbid")

    column: Column
    """Column that the variable is read from."""
    sensitive: bool = False
    """Keep the values in a Secret for each tenant, and out of everything else."""


ExtraMapping = Annotated[
    str | ColumnMapping,
    Field(union_mode="left_to_right"),
    WithJsonSchema(
        {
            "description": (
                "The column: its name, or an object with column and, for values that must stay "
                "secret, sensitive: true."
            ),
            "minLength": 1,
            "maxLength": 64,
            "required": ["column"],
            "maxProperties": 2,
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]


class DeletionGuard(ApiModel):
    """Protects tenants from a query that succeeds and yet misses most rows.

    What it stops stays stopped until the rows are back or the guard is changed; the registry's
    conditions carry the numbers.
    """

    max_delete_percent: Annotated[Int32, Field(ge=0, le=100)] = 20
    """The largest share of the rows, in percent, whose tenants may go within the window, and so in one
    sync; 100 removes the limit."""
    always_allowed_rows: Annotated[Int32, Field(ge=0)] = 1
    """Tenants of this many rows may go within the window whatever their share, so that small tables work."""
    window: Annotated[
        str,
        Field(max_length=10, pattern=r"^[0-9]+(s|m|h)$"),
        CEL("duration(self) <= duration('720h')", message="window must be at most 720h"),
    ] = "24h"
    """How long a removal counts: a whole number of seconds, minutes or hours, at most 720h. With 0s each
    sync is judged by itself."""
    allow_empty: bool = False
    """Accept a query that returns no rows at all, within the limits above."""

    @property
    def period(self) -> timedelta:
        """``window`` as a span of time, at most 30 days."""
        try:
            return min(parse_duration(self.window), LONGEST_WINDOW)
        except ValueError:
            return LONGEST_WINDOW


class TenantRegistrySpec(ApiModel):
    """A data source and what its columns mean."""

    source: TenantRegistrySource
    """Where the rows come from."""
    value_mappings: ValueMappings
    """The columns with a meaning of their own."""
    extra_value_mappings: dict[str, ExtraMapping] = Field(default_factory=dict)
    """Further template variables, by name."""
    deletion_protection: bool = True
    """Keep the tenants when this registry is deleted, until the annotation
    tenancy.ctrlruntime.dev/approve-deletion decides what becomes of them."""
    deletion_guard: DeletionGuard = Field(default_factory=DeletionGuard)
    """Protects tenants from a query that succeeds and yet misses most rows."""
    require_approval_by: RequireApprovalBy | None = None
    """Whose approvals count; by default those of everyone who may write the annotations. While it is set, only a member
    of the group changes it, deletionProtection and deletionGuard."""
    maintenance_windows: Annotated[list[MaintenanceWindow], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Tenants that exist are changed and removed only while one of these is open; without any, at all times. New
    tenants, rollbacks and the correction of drift do not wait."""

    def extra_columns(self) -> dict[str, ColumnMapping]:
        """``extra_value_mappings`` with the short form spelled out, by variable."""
        return {
            variable: ColumnMapping(column=value) if isinstance(value, str) else value
            for variable, value in self.extra_value_mappings.items()
        }


class RowCounts(ApiModel):
    """What the last successful query found."""

    total: int = 0
    """All rows."""
    active: int = 0
    """Rows that stand for tenants."""
    inactive: int = 0
    """Rows whose activation column is false."""
    invalid: int = 0
    """Rows in doubt, whose tenants stay as they are: no usable uid, a uid in several rows, an unknown
    activation value, a value that is too large."""


class RemovedRows(ApiModel):
    """Rows whose tenants, or objects of whose tenants, were removed, at one time or shortly one after another."""

    time: Time
    """When the last of them were removed."""
    rows: Int32
    """How many rows."""
    uids: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Their uids, as many as are remembered."""


class SavedRemovals(ApiModel):
    """Shows whose write `removedRows`, `valueRemovals`, `usedApprovals` and `approvedRemovals` were last."""

    saved: int = 0
    """When they were stored last, in seconds since 1970. Where another field manager wrote it, an older status was put back."""


class TenantRegistryStatus(ApiModel):
    """What is known of the registry's tenants. A failing database leaves the last good counts."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    referencing_templates: Int32 = 0
    """Templates that use this registry."""
    desired: Int32 = 0
    """Tenants that should exist: active rows times templates, and the tenants of rows in doubt."""
    ready: Int32 = 0
    """Tenants among the desired that are ready."""
    failed: Int32 = 0
    """Tenants of this registry that have failed."""
    unmanaged: Int32 = 0
    """Tenants that name this registry and were not made by it; they are counted nowhere else."""
    removals_pending: Int32 = 0
    """Tenants with an object that is still to be removed, tenants whose deletion is paused, and tenants
    that go once their replacements are ready."""
    moving: Int32 | None = None
    """Tenants that are not deleted when their rows go, as they move to other data planes; absent if there are none."""
    rows: RowCounts = Field(default_factory=RowCounts)
    """What the last successful query found."""
    columns: Annotated[list[str], ListSet(), Field(max_length=100)] = Field(default_factory=list)
    """Columns of the table that can be mapped; empty if they are unknown or more than 100."""
    removed_rows: list[RemovedRows] = Field(default_factory=list)
    """Removals without an approval that count for the deletion guard. Older ones go with the next removal."""
    value_removals: list[RemovedRows] = Field(default_factory=list)
    """Rows whose changed values removed objects of their tenants, which count in the same way."""
    removals_unknown_since: Time | None = None
    """When this status was found wiped, restored from a backup or put back older, although members were there: until the window has passed
    nothing goes without an approval."""
    removals: SavedRemovals = Field(default_factory=SavedRemovals)
    """Whose record of removals this is."""
    used_approvals: dict[str, int] = Field(default_factory=dict)
    """When each approval was used, by digest, in seconds since 1970: an approval counts once."""
    approved_removals: Annotated[list[str], ListSet()] = Field(default_factory=list)
    """Tenants whose deletion, or whose loss of objects, a used approval released and that are still there: the first 1,000
    in order. Should the manager end before it comes to the others, they are held again."""
    source_position: str = ""
    """How far the rows had been read when they last changed; a replica that lags behind it is not read. Empty for databases
    that have no such position."""
    approvals: ApprovalsStatus | None = None
    """Whose approvals are needed, and who gave those that counted."""
    waiting: ChangesWaiting | None = None
    """Changes of tenants that a ChangeFreeze or a closed maintenance window holds."""
    last_sync_time: Time | None = None
    """When a sync last changed this status."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, and what stands in its way."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class TenantRegistry(
    Resource[TenantRegistrySpec, TenantRegistryStatus],
    group=GROUP,
    version=VERSION,
    plural="tenantregistries",
    categories=("tenancy",),
    print_columns=(
        *count_columns(
            Templates="referencingTemplates", Desired="desired", Ready="ready", Failed="failed"
        ),
        condition_column("Valid", "RowsValid"),
        condition_column("Conditions", "Ready", "reason"),
        AGE,
        condition_column("Message", "Ready", "message"),
    ),
):
    """A table of a database whose active rows become tenants, one for each template."""
