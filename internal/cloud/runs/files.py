"""The files of a run, for providers that write them themselves, with the Secrets that its task may read."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from apis.references import SecretKeyRef
from internal.cloud.runs.provider import RunRefused, RunRequest
from internal.cloud.runs.sealing import new_key
from internal.cloud.runs.wire import BadInput, encode_input

__all__ = ["INPUT", "RESULT", "SEAL_KEY", "SECRETS", "SecretReader", "files_of"]

INPUT: Final = "input.json"
SEAL_KEY: Final = "seal-key"
SECRETS: Final = "secrets"
RESULT: Final = "result"
SecretReader: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, bytes] | None]]
"""The data of a Secret by namespace and name; None if there is none."""


async def files_of(request: RunRequest, secrets: SecretReader | None) -> dict[str, bytes]:
    """Return what a run is given, by path in its folder. Raises RunRefused for an input that cannot be written."""
    try:
        files = {INPUT: encode_input(request.input), SEAL_KEY: new_key().encode()}
    except BadInput as error:
        raise RunRefused(str(error)) from error
    if secrets is not None:
        found = await _read_keys(secrets, request.input.owner.namespace, request.secrets)
        files |= {f"{SECRETS}/{name}/{key}": value for (name, key), value in found.items()}
    return files


async def _read_keys(
    reader: SecretReader, namespace: str, refs: Iterable[SecretKeyRef]
) -> dict[tuple[str, str], bytes]:
    """Return the keys that there are, by Secret and key; every Secret is read once."""
    wanted: dict[str, set[str]] = {}
    for ref in refs:
        wanted.setdefault(ref.name, set()).add(ref.key)
    values: dict[tuple[str, str], bytes] = {}
    for name, keys in wanted.items():
        data = await reader(namespace, name) or {}
        values.update({(name, key): data[key] for key in keys if key in data})
    return values
