"""Which fields a write changes, what is masked of them, and when changes of two tenants are equal."""

from __future__ import annotations

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.resources.field_changes import (
    MASKED_AFTER,
    MASKED_BEFORE,
    FieldChange,
    field_changes,
    general,
    masked,
)

CONFIG_MAP = GroupKind("", "ConfigMap")
SECRET = GroupKind("", "Secret")


def test_fields_are_named_by_their_path() -> None:
    before = {"data": {"a.conf": "1", "gone": "x"}, "spec": {"items": [{"name": "n", "v": 1}]}}
    after = {"data": {"a.conf": "2"}, "spec": {"items": [{"name": "n", "v": 2}, {"name": "m"}]}}
    assert field_changes(before, after) == [
        FieldChange("data.gone", "x", None),
        FieldChange("data['a.conf']", "1", "2"),
        FieldChange("spec.items[name=m]", None, {"name": "m"}),
        FieldChange("spec.items[name=n].v", 1, 2),
    ]
    assert field_changes(before, before) == []


def test_data_of_secrets_and_sensitive_values_are_masked() -> None:
    changes = [FieldChange("data.password", "b25l", "dHdv"), FieldChange("data.new", None, "dHdv")]
    assert masked(changes, SECRET, {}) == (
        FieldChange("data.password", MASKED_BEFORE, MASKED_AFTER),
        FieldChange("data.new", None, "***"),
    )
    hidden = {"password": "horse"}
    assert masked([FieldChange("data.url", "x", "me:horse@db")], CONFIG_MAP, hidden) == (
        FieldChange("data.url", "x", "me:***@db"),
    )


def test_values_of_the_row_are_compared_by_their_variable() -> None:
    def change(host: str, size: str) -> tuple[object, ...]:
        changes = [FieldChange("data.url", host, f"https://{host}/{size}")]
        return general(changes, {"host": host, "n": "1"})

    assert change("a.example.com", "small") == change("b.example.com", "small")
    assert change("a.example.com", "small") != change("b.example.com", "large")
