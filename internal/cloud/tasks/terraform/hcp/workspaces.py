"""The workspace of an instance: found or made, kept as in the spec, given its configuration, deleted safely.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs/workspaces
https://developer.hashicorp.com/terraform/cloud-docs/api-docs/configuration-versions
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.backoff import exponential
from internal.cloud.tasks.task import TaskError, TaskRejected
from internal.cloud.tasks.terraform.hcp.api import (
    HCP,
    APIError,
    Conflict,
    Document,
    Invalid,
    Missing,
    Resource,
    Unanswered,
    relation,
    segment,
)

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,90}")
_MARK: Final = re.compile(
    r"Instance (\S+/\S+), managed by its control plane(?: \(uid ([-A-Za-z0-9]+)\))?"
)
_ROUNDS: Final = 3
_LOOKS: Final = 30
"""How often to look whether an upload has been processed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The owner of a workspace: from its description."""

    instance: str
    """Namespace and name."""
    uid: str
    """UID of the Instance; empty where the description names none."""

    def __str__(self) -> str:
        return f"Instance {self.instance}, managed by its control plane (uid {self.uid})"

    @classmethod
    def of(cls, description: str) -> "Mark | None":
        found = _MARK.search(description)
        return None if found is None else cls(found.group(1), found.group(2) or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A workspace as the API shows it."""

    identity: str
    name: str
    terraform_version: str
    execution_mode: str
    project: str | None
    description: str
    connected: bool
    """To a repository."""
    stateful: bool
    """Whether it has ever had a state."""
    resources: int
    holder: str | None
    """Who locked it, for people; None if it is free or a run has it."""
    current_run: str | None

    @property
    def mark(self) -> Mark | None:
        """Whose it is; None if it carries no mark."""
        return Mark.of(self.description)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The workspace's settings of the spec."""

    organization: str
    name: str
    project: str | None
    terraform_version: str | None
    instance: str
    """Namespace and name of the instance."""
    uid: str
    """UID of the instance."""

    @property
    def mark(self) -> Mark:
        """The mark that workspaces of this instance carry."""
        return Mark(self.instance, self.uid)


class NotOurs(TaskRejected):
    """The workspace of that name does not carry the mark of this Instance."""


class Foreign(NotOurs):
    """The workspace of that name is another instance's."""


class Workspaces:
    """Workspaces of one organization."""

    def __init__(self, api: HCP, settings: Settings) -> None:
        if not _NAME.fullmatch(settings.name):
            raise TaskRejected(
                f"workspace {settings.name}: a name has letters, digits, - and _, at most 90"
            )
        self._api = api
        self._settings = settings
        self._path = f"/organizations/{segment(settings.organization)}/workspaces"

    async def read(self) -> Workspace | None:
        """Return the workspace of that name, whosever it is; None if there is none."""
        query = {"include": "locked_by"}
        try:
            document = await self._api.get(f"{self._path}/{segment(self._settings.name)}", query)
        except Missing:
            return None
        return _workspace(document)

    async def find(self) -> Workspace | None:
        """Return the workspace; None if there is none. Raises NotOurs."""
        found = await self.read()
        if found is not None:
            self._check_ours(found)
        return found

    def _check_ours(self, found: Workspace) -> None:
        """Raise NotOurs for a workspace that does not carry this Instance's mark with its UID."""
        mark, ours = found.mark, self._settings.mark
        if ours.uid and mark == ours:
            return
        if not ours.uid:
            raise NotOurs(
                f"the UID of Instance {ours.instance} is not known, so workspace {found.name} is left"
                " alone: restore the owner reference of the InstanceTerraform"
            )
        if mark is not None and mark.instance != ours.instance:
            raise Foreign(
                f"workspace {found.name} belongs to Instance {mark.instance}:"
                " name another one in infrastructure.terraform.workspace"
            )
        what = "was not made for this Instance"
        if mark is not None:
            what = f"was made for an earlier Instance {mark.instance}"
        raise NotOurs(
            f"workspace {found.name} {what}, so it is left alone: name another one in"
            " infrastructure.terraform.workspace, or, if what is in it belongs to this Instance, hand"
            f' it over: set its description to "{ours}", and ask for a retry'
        )

    async def ensure(self) -> Workspace:
        """Return the workspace, made if there is none, with the settings of the spec. Raises NotOurs."""
        for _ in range(_ROUNDS):
            found = await self.find() or await self._make()
            if found is not None:
                return await self._kept(found)
        raise TaskError(
            f"workspace {self._settings.name} can neither be read nor made: its name is taken, and the"
            " token must not see it"
        )

    async def delete(self, workspace: Workspace) -> None:
        """Delete it, unless it still has resources. One that is gone is no error."""
        path = f"/workspaces/{segment(workspace.identity)}"
        for _ in range(_ROUNDS):
            try:
                await self._api.act(f"{path}/actions/safe-delete")
            except Unanswered:
                pass
            except Missing:
                await self._delete_without_check(workspace, path)
            except Conflict as error:
                raise TaskError(
                    f"workspace {workspace.name} is not deleted, since it still has resources: {error}"
                ) from error
            if await self._is_gone(workspace):
                return
        raise TaskError(f"workspace {workspace.name} is still there after it was deleted")

    async def _is_gone(self, workspace: Workspace) -> bool:
        """Whether it is not there any more. Another one of that name does not count."""
        found = await self.read()
        return found is None or found.identity != workspace.identity

    async def _delete_without_check(self, workspace: Workspace, path: str) -> None:
        """For servers without safe-delete, of which a 404 is all that is heard."""
        found = await self.read()
        if found is None or found.identity != workspace.identity:
            return
        if found.resources:
            raise TaskError(f"workspace {found.name} is not deleted: it has resources still")
        try:
            await self._api.delete(path)
        except Missing:
            return

    async def _make(self) -> Workspace | None:
        attributes: dict[str, Any] = {
            "name": self._settings.name,
            "execution-mode": "remote",
            "auto-apply": False,
            "source-name": "ctrlruntime",
            "description": f"Infrastructure of {self._settings.mark}",
            **self._version(),
        }
        data = {"type": "workspaces", "attributes": attributes, **self._project()}
        try:
            return _workspace(await self._api.create(self._path, data))
        except (Unanswered, Invalid) as error:
            if await self.find() is None and isinstance(error, Invalid):
                raise
            return None
        except Missing as error:
            raise TaskError(
                f"organization {self._settings.organization} is not there, or the token may make no"
                " workspaces in it"
            ) from error

    async def _kept(self, found: Workspace) -> Workspace:
        if found.execution_mode == "local":
            raise TaskRejected(
                f"workspace {found.name} runs Terraform locally: set its execution mode to remote or agent"
            )
        wanted_version = self._settings.terraform_version
        wanted_project = self._settings.project
        same_version = wanted_version in (None, found.terraform_version)
        if same_version and wanted_project in (None, found.project):
            return found
        data = {
            "type": "workspaces",
            "id": found.identity,
            "attributes": self._version(),
            **self._project(),
        }
        await self._api.update(f"/workspaces/{segment(found.identity)}", data)
        return await self.find() or found

    def _version(self) -> Mapping[str, str]:
        version = self._settings.terraform_version
        return {} if version is None else {"terraform-version": version}

    def _project(self) -> Mapping[str, Any]:
        project = self._settings.project
        if project is None:
            return {}
        return {"relationships": {"project": {"data": {"type": "projects", "id": project}}}}


def _workspace(document: Document) -> Workspace:
    resource = document.one
    attributes = resource["attributes"]
    return Workspace(
        identity=resource["id"],
        name=attributes["name"],
        terraform_version=attributes.get("terraform-version") or "",
        execution_mode=attributes.get("execution-mode") or "",
        project=_id(relation(resource, "project")),
        description=attributes.get("description") or "",
        connected=bool(attributes.get("vcs-repo")),
        stateful=relation(resource, "current-state-version") is not None,
        resources=attributes.get("resource-count") or 0,
        holder=_holder(resource, document),
        current_run=_id(relation(resource, "current-run")),
    )


def _holder(resource: Resource, document: Document) -> str | None:
    attributes = resource["attributes"]
    by = relation(resource, "locked-by")
    if not attributes.get("locked") or (by is not None and by["type"] == "runs"):
        return None
    name = "somebody"
    if by is not None:
        included = document.included(by["type"], by["id"])
        said = (included or {}).get("attributes") or {}
        kind = "team " if by["type"] == "teams" else ""
        name = kind + (said.get("username") or said.get("name") or by["id"])
    reason = attributes.get("locked-reason")
    return f"{name} ({reason})" if reason else name


def _id(pointer: Resource | None) -> str | None:
    return None if pointer is None else pointer["id"]


async def upload(api: HCP, workspace: str, archive: bytes) -> str:
    """Return the id of a configuration version that holds the archive and is ready.

    What got lost on the way is left behind unused, and a new version is made: an upload address is
    shown once, and good for one upload. No run is queued by it.
    """
    trouble: TaskError | None = None
    for _ in range(_ROUNDS):
        try:
            identity = await _uploaded(api, workspace, archive)
        except Unanswered as error:
            trouble = error
            continue
        if identity is not None:
            return identity
    raise trouble or TaskError("HCP Terraform does not take the configuration")


async def _uploaded(api: HCP, workspace: str, archive: bytes) -> str | None:
    path = f"/workspaces/{segment(workspace)}/configuration-versions"
    attributes = {"auto-queue-runs": False, "speculative": False}
    created = await api.create(path, {"type": "configuration-versions", "attributes": attributes})
    identity: str = created.one["id"]
    try:
        await api.upload(created.one["attributes"]["upload-url"], archive)
        sure = True
    except (Unanswered, APIError):
        sure = False
    return identity if await _ready(api, identity, _LOOKS if sure else 3) else None


async def _ready(api: HCP, identity: str, looks: int) -> bool:
    """Whether it can be used by runs. Raises TaskError if it is broken."""
    for look in range(looks):
        document = await api.get(f"/configuration-versions/{segment(identity)}")
        attributes = document.one["attributes"]
        if attributes["status"] == "uploaded":
            return True
        if attributes["status"] == "errored":
            said = attributes.get("error-message") or attributes.get("error") or "no reason given"
            raise TaskError(f"HCP Terraform cannot process the configuration: {said}")
        await api.sleep(exponential(0.5, 5.0, look))
    return False
