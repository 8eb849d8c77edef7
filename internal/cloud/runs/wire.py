"""The input of a run as JSON: the same bytes for every provider."""

import msgspec
import orjson

from internal.cloud.runs.provider import RunInput

__all__ = ["BadInput", "decode_input", "encode_input"]


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
