"""What a run is given: the variables that name its files, and its input as JSON, the same for every provider."""

from typing import Final

import msgspec
import orjson

from internal.cloud.runs.provider import RunInput

__all__ = [
    "ALLOWED",
    "ENVIRONMENT",
    "FOLDER",
    "INPUT",
    "LIMIT",
    "PLAIN",
    "RESULT",
    "SEAL_KEY",
    "SECRETS",
    "VARIABLES",
    "BadInput",
    "decode_input",
    "encode_input",
]

INPUT: Final = "TASK_INPUT"
"""File with the input, JSON."""
SECRETS: Final = "TASK_SECRETS"
"""Folder with a file `<secret>/<key>` for each key that the task may read."""
RESULT: Final = "TASK_RESULT"
"""File that gets the report, JSON; also while the task is under way."""
LIMIT: Final = "TASK_RESULT_LIMIT"
"""Bytes that the report may have; 4096 without it."""
SEAL_KEY: Final = "TASK_SEAL_KEY"
"""File with the key that secret outputs are sealed with."""
PLAIN: Final = "TASK_PLAIN_VARIABLES"
"""Names of variables that hold no secret, separated by commas; set where others do."""
FOLDER: Final = "TASK_FOLDER"
"""Folder in which the task may write; the system's temporary folder without it."""
ENVIRONMENT: Final = "TASK_ENVIRONMENT"
"""Folders with a file `<key>` for each key of a Secret that becomes a variable, separated by commas; later ones win."""
ALLOWED: Final = "TASK_ALLOWED_ENVIRONMENT"
"""Prefixes of variables that Secrets may set besides the usual ones, separated by commas."""
VARIABLES: Final = frozenset(
    {INPUT, SECRETS, RESULT, LIMIT, SEAL_KEY, PLAIN, FOLDER, ENVIRONMENT, ALLOWED}
)
"""Names of all of them."""


class BadInput(ValueError):
    """The input is not that of a run; the message describes the error."""


def encode_input(given: RunInput) -> bytes:
    """Equal inputs are equal bytes. Raises BadInput for what JSON cannot hold."""
    try:
        return orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise BadInput(
            f"the input of run {given.run_id} cannot be written as JSON: {error}"
        ) from error


def decode_input(data: bytes) -> RunInput:
    """Raise BadInput. Fields that this release does not know are passed over."""
    try:
        return msgspec.json.decode(data, type=RunInput)
    except msgspec.MsgspecError as error:
        raise BadInput(f"the input of the run is not what a manager writes: {error}") from error
