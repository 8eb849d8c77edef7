"""Reads what comes from outside: each reader has limits on size, depth, number and time, and checks them first.

Every error is an :class:`IntakeError`, a ValueError that names the limit and the remedy and shows none of the content.
"""

from ctrlruntime.intake.archives import archive_members
from ctrlruntime.intake.bodies import read_body, read_file
from ctrlruntime.intake.compressed import BoundedInflater, inflate
from ctrlruntime.intake.descriptions import describe_error, describe_value
from ctrlruntime.intake.json_documents import encode_json, json_depth, read_json, value_depth
from ctrlruntime.intake.limits import (
    DOCUMENT,
    OBJECT_DEPTH,
    IntakeError,
    LimitExceeded,
    Limits,
    Malformed,
)
from ctrlruntime.intake.yaml_documents import read_yaml, read_yaml_all

__all__ = [
    "DOCUMENT",
    "OBJECT_DEPTH",
    "BoundedInflater",
    "IntakeError",
    "LimitExceeded",
    "Limits",
    "Malformed",
    "archive_members",
    "describe_error",
    "describe_value",
    "encode_json",
    "inflate",
    "json_depth",
    "read_body",
    "read_file",
    "read_json",
    "read_yaml",
    "read_yaml_all",
    "value_depth",
]
