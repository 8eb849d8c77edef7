"""Databases: a StatefulSet, a Service and a Secret for each, a last backup before one goes, and two versions of the kind."""

from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from ctrlruntime import (
    AdmissionOptions,
    ApiModel,
    Builder,
    Condition,
    Conditions,
    ConditionStatus,
    Config,
    Control,
    Desired,
    Int32,
    Manager,
    ManagerOptions,
    ObjectMeta,
    Owner,
    PrintColumn,
    Quantity,
    Resource,
    Result,
    WebhookOptions,
    defaults,
    run,
    set_condition,
    validates,
)
from ctrlruntime.clock import random_hex
from ctrlruntime.kinds.apps.v1 import StatefulSet, StatefulSetSpec
from ctrlruntime.kinds.batch.v1 import Job, JobSpec
from ctrlruntime.kinds.core.v1 import (
    Container,
    ContainerPort,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PodSpec,
    PodTemplateSpec,
    Secret,
    SecretEnvSource,
    SecretKeySelector,
    Service,
    ServicePort,
    ServiceSpec,
    VolumeMount,
    VolumeResourceRequirements,
)
from ctrlruntime.kinds.meta.v1 import LabelSelector
from ctrlruntime.lifecycle import Lifecycle, ObjectPass
from ctrlruntime.webhook import Review, convert_fields

NEWEST = 17
PORT = 5432
FIELD_MANAGER = "database"
FINALIZER = "data.example.com/last-backup"
LABEL = "data.example.com/database"
CHECK_AGAIN = Result(requeue_after=60)
"""For what no event leads back from, such as an object that belongs to another."""


class Storage(ApiModel):
    """The volume of each replica."""

    size: Quantity
    class_name: str | None = None


class DatabaseSpec(ApiModel):
    """What the database is like."""

    engine: Int32 | None = None
    """The major version; that of a new database is the newest, and stays."""
    replicas: Annotated[Int32, Field(ge=1, le=5)] = 1
    storage: Storage
    last_backup: Literal["Take", "Skip"] = "Take"
    """Whether a backup is taken before the database goes."""


class DatabaseStatus(ApiModel):
    """How it is."""

    observed_generation: int = 0
    last_handled_reconcile: str = ""
    host: str = ""
    secret: str = ""
    ready_replicas: int = 0
    conditions: Conditions = Field(default_factory=list)


class Database(
    Resource[DatabaseSpec, DatabaseStatus],
    group="data.example.com",
    version="v2",
    print_columns=(PrintColumn("Host", ".status.host"),),
):
    """A PostgreSQL database. This version is stored, and the controller reads no other."""

    admission: ClassVar = AdmissionOptions(timeout_seconds=5)

    @defaults("create")
    def pin_engine(self, review: Review["Database"]) -> None:
        """Write down what a new database begins with: a newer operator does not upgrade it."""
        if self.spec.engine is None:
            self.spec.engine = NEWEST

    @validates("create", "update")
    def check_engine(self, review: Review["Database"]) -> None:
        """Refuse an engine that there is none of, and the way back to an older one."""
        engine = self.spec.engine or NEWEST
        if not 14 <= engine <= NEWEST:
            review.invalid("spec.engine", engine, f"it is 14 to {NEWEST}")
        if review.old is not None and engine < (review.old.spec.engine or engine):
            review.forbidden("spec.engine", "no older engine reads the data")

    @validates("update")
    def check_storage(self, review: Review["Database"]) -> None:
        """Refuse what a StatefulSet cannot change."""
        if review.old is not None and self.spec.storage != review.old.spec.storage:
            review.forbidden("spec.storage", "it stays: make another database, and move the data")


class OldDatabaseSpec(ApiModel):
    """The size alone was known of the storage."""

    engine: Int32 | None = None
    replicas: Annotated[Int32, Field(ge=1, le=5)] = 1
    size: Quantity


class OldDatabase(
    Resource[OldDatabaseSpec, DatabaseStatus],
    group="data.example.com",
    version="v1",
    kind="Database",
    storage=False,
):
    """A database as it was."""

    def to_hub(self) -> Database:
        """Return it in the stored version."""
        return convert_fields(self, Database, moved={"spec.size": "spec.storage.size"})

    @classmethod
    def from_hub(cls, hub: Database) -> Self:
        """Return the stored version in this one; what it has no place for is kept in an annotation."""
        return convert_fields(hub, cls, moved={"spec.storage.size": "spec.size"})


SAMPLES = (
    {
        "apiVersion": "data.example.com/v2",
        "kind": "Database",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {
            "engine": 17,
            "storage": {"size": "10Gi", "className": "fast"},
            "lastBackup": "Skip",
        },
    },
)
"""What the manager converts there and back when it starts: what would be lost stops it."""


def meta_of(database: Database, name: str = "") -> ObjectMeta:
    """Return the metadata of an object that belongs to the database; by default of the same name."""
    own = database.metadata
    return ObjectMeta(name=name or own.name, namespace=own.namespace, labels={LABEL: own.name})


def image_of(database: Database) -> str:
    """Return the image of its engine."""
    return f"postgres:{database.spec.engine or NEWEST}"


def secret(database: Database) -> Desired:
    """Return the Secret with a password, which is drawn once and never written again."""
    found = Secret(metadata=meta_of(database), string_data={"password": random_hex(16)})
    return replace(Desired.of(found), once=True)


def password_as(variable: str, database: Database) -> EnvVar:
    """Return an environment variable with the password."""
    key = SecretKeySelector(name=database.metadata.name, key="password")
    return EnvVar(name=variable, value_from=EnvVarSource(secret_key_ref=key))


def service(database: Database) -> Desired:
    """Return the Service that clients reach it by."""
    spec = ServiceSpec(
        cluster_ip="None",
        selector={LABEL: database.metadata.name},
        ports=[ServicePort(name="postgres", port=PORT)],
    )
    return Desired.of(Service(metadata=meta_of(database), spec=spec))


def stateful_set(database: Database) -> Desired:
    """Return the StatefulSet: a volume for each replica, and the password from the Secret."""
    meta, storage = meta_of(database), database.spec.storage
    container = Container(
        name="postgres",
        image=image_of(database),
        ports=[ContainerPort(container_port=PORT)],
        env=[
            password_as("POSTGRES_PASSWORD", database),
            EnvVar(name="PGDATA", value="/data/postgres"),
        ],
        volume_mounts=[VolumeMount(name="data", mount_path="/data")],
    )
    claim = PersistentVolumeClaimSpec(
        access_modes=["ReadWriteOnce"],
        storage_class_name=storage.class_name,
        resources=VolumeResourceRequirements(requests={"storage": storage.size}),
    )
    spec = StatefulSetSpec(
        replicas=database.spec.replicas,
        service_name=meta.name,
        selector=LabelSelector(match_labels=meta.labels),
        template=PodTemplateSpec(
            metadata=ObjectMeta(labels=meta.labels), spec=PodSpec(containers=[container])
        ),
        volume_claim_templates=[
            PersistentVolumeClaim(metadata=ObjectMeta(name="data"), spec=claim)
        ],
    )
    return Desired.of(StatefulSet(metadata=meta, spec=spec))


def backup(database: Database) -> Desired:
    """Return the Job that takes the last backup. Where to is in a Secret `backups` of the namespace."""
    meta = meta_of(database, f"{database.metadata.name}-last-backup")
    container = Container(
        name="backup",
        image=image_of(database),
        command=["sh", "-c", f'pg_dump -h {database.metadata.name} -U postgres > "$BACKUP_FILE"'],
        env=[password_as("PGPASSWORD", database)],
        env_from=[EnvFromSource(secret_ref=SecretEnvSource(name="backups"))],
    )
    pod = PodSpec(restart_policy="Never", containers=[container])
    return Desired.of(
        Job(metadata=meta, spec=JobSpec(backoff_limit=2, template=PodTemplateSpec(spec=pod)))
    )


class Databases:
    """Keeps what databases need, and takes the last backup."""

    def __init__(self, manager: Manager) -> None:
        self._cache = manager.cache
        self._control = Control(manager.cache, field_manager=FIELD_MANAGER)

    async def ensure(self, database: Database, this: ObjectPass) -> Result | None:
        """Bring its objects about, and report how many replicas are ready."""
        owner, meta, status = Owner.of(database), database.metadata, database.status
        for build in (secret, service, stateful_set):
            outcome = await self._control.ensure(build(database), owner)
            if outcome.conflict:
                this.set_ready(database, False, "Conflict", outcome.conflict)
                return CHECK_AGAIN
        status.host, status.secret = f"{meta.name}.{meta.namespace}.svc", meta.name
        found = self._cache.get(StatefulSet, meta.name, namespace=meta.namespace)
        status.ready_replicas = (found.status.ready_replicas or 0) if found else 0
        wanted = database.spec.replicas
        is_ready = status.ready_replicas >= wanted
        message = f"{status.ready_replicas} of {wanted} replicas are ready"
        this.set_ready(database, is_ready, "AllReady" if is_ready else "Waiting", message)
        return None

    async def tear_down(self, database: Database, this: ObjectPass) -> Result | None:
        """Take the last backup; with that the finalizer goes, and all that the database owns."""
        if database.spec.last_backup == "Skip":
            return None
        job = backup(database)
        outcome = await self._control.ensure(job, Owner.of(database))
        found = self._cache.get(Job, job.name, namespace=job.namespace)
        conditions = found.status.conditions if found else []
        ended = [each.type for each in conditions if each.status == "True"]
        if outcome.conflict:
            self._report(database, this, "Conflict", outcome.conflict)
        elif "Complete" in ended:
            this.event(
                "Normal", "BackedUp", "Backup", f"the last backup is taken by Job {job.name}"
            )
            self._report(database, this, "Taken", "", done=True)
            return None
        elif "Failed" in ended:
            again = f"kubectl delete job {job.name} -n {job.namespace}"
            skip = "or set spec.lastBackup to Skip"
            self._report(
                database, this, "Failed", f"Job {job.name} failed. Try again: {again}; {skip}"
            )
        else:
            self._report(database, this, "Running", f"Job {job.name} takes it")
        return CHECK_AGAIN

    def _report(
        self, database: Database, this: ObjectPass, reason: str, message: str, *, done: bool = False
    ) -> None:
        status: ConditionStatus = "True" if done else "False"
        condition = Condition(type="BackedUp", status=status, reason=reason, message=message)
        set_condition(database.status.conditions, condition, this.now)


def setup(manager: Manager) -> None:
    """Add webhooks, conversion and the controller."""
    manager.webhooks.register(Database)
    manager.webhooks.convert(Database, OldDatabase, samples=SAMPLES)
    databases = Databases(manager)
    life = Lifecycle(
        Database, finalizer=FINALIZER, reconcile=databases.ensure, tear_down=databases.tear_down
    )
    builder = Builder(manager).for_(Database)
    builder.owns(StatefulSet, track_manager=FIELD_MANAGER)
    builder.owns(Service, track_manager=FIELD_MANAGER)
    builder.owns(Secret, track_manager=FIELD_MANAGER, labels=LABEL)  # and no other Secret is read
    builder.owns(Job, track_manager=FIELD_MANAGER)
    builder.build(life.reconciler(manager))


OPTIONS = ManagerOptions(
    name="database",
    handle_signals=True,
    leader_election=True,
    leader_election_id="database",
    webhook=WebhookOptions(
        service_name="database-webhook",
        mutating_configurations=("database-mutating",),
        validating_configurations=("database-validating",),
    ),
)


async def main() -> None:
    """Run it until it is stopped."""
    manager = Manager(await Config.load(), OPTIONS)
    setup(manager)
    await manager.start()


if __name__ == "__main__":
    run(main())
