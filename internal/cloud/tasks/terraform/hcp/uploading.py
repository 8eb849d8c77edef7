"""A configuration becomes a configuration version that runs can use.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs/configuration-versions
"""

from typing import Final

from ctrlruntime.backoff import exponential
from internal.cloud.tasks.task import TaskError
from internal.cloud.tasks.terraform.hcp.api import HCP, APIError, Unanswered, segment

_ROUNDS: Final = 3
_LOOKS: Final = 30
"""How often to look whether an upload has been processed."""


async def upload(api: HCP, workspace: str, archive: bytes) -> str:
    """Return the id of a version that holds the archive and is ready.

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
