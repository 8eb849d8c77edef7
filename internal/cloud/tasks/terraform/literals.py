"""JSON values as Terraform reads them: every text of a JSON configuration is a template."""

from collections.abc import Mapping, Sequence
from typing import Any


def literal(value: Any) -> Any:
    """Return the value so that Terraform takes it word for word: no text, and no key, is interpolated.

    https://developer.hashicorp.com/terraform/language/syntax/json, Expression Mapping: texts are parsed
    as templates, names of properties too.
    """
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    if isinstance(value, Mapping):
        return {literal(key): literal(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [literal(each) for each in value]
    return value


def reference(path: str) -> str:
    """Return an expression that is evaluated."""
    return f"${{{path}}}"
