"""Statuses as they are written: without the texts that say nothing."""

from ctrlruntime.api import ApiModel
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.sparing import without_empty_texts

__all__ = ["sparing"]


def sparing(status: ApiModel) -> Manifest:
    """A whole status as JSON data, defaults too. No field of a status may be null on the wire."""
    wire = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return without_empty_texts(status, wire)
