"""Rights that give more than they seem are in the documents, with who has them (H-D4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.docs.blocks import ROOT

POWERFUL = {
    "pods": "create",
    "deployments": "create",
    "statefulsets": "create",
    "daemonsets": "create",
    "jobs": "create",
    "cronjobs": "create",
    "roles": "create",
    "rolebindings": "create",
    "secrets": "list",
    "tenants/finalizers": "update",
}
"""Resources whose rights give more than their name says, and the verb that does."""
NEVER = ("bind", "escalate", "impersonate", "*")


def granted() -> Iterator[tuple[str, str]]:
    """Return resource and verb of each right of the manager."""
    text = (ROOT / "config" / "rbac" / "role.yaml").read_text()
    for role in yaml.safe_load_all(text):
        for rule in role["rules"]:
            for resource in rule.get("resources", ()):
                yield from ((resource, verb) for verb in rule["verbs"])


def documented() -> list[tuple[str, str]]:
    """Return right and holder of each row of the table, in lower case."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    section = text.partition("### Rights that give more than they seem\n")[2].partition("\n### ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [(row[0].lower(), row[2].lower()) for row in rows[2:]]


@pytest.mark.criterion("H-D4")
def test_h_d4_each_right_of_the_manager_that_gives_more_is_documented_as_its_own() -> None:
    rights = set(granted())
    held = [resource for resource, verb in POWERFUL.items() if (resource, verb) in rights]
    assert set(held) == set(POWERFUL), "the table would list what nobody has"
    own = " ".join(right for right, holder in documented() if "the manager" in holder)
    assert [name for name in held if name.rpartition("/")[2] not in own.replace(" ", "")] == []


@pytest.mark.criterion("H-D4")
def test_h_d4_the_manager_has_no_right_to_give_what_it_does_not_have() -> None:
    assert [right for right in granted() if right[1] in NEVER or right[0] == "*"] == []
    (holder,) = (holder for right, holder in documented() if "`bind`" in right)
    assert holder.strip() == "none"
