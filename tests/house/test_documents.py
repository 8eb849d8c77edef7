"""The pages for whoever carries on: every path exists, every list is complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:toml|md|lock|py))(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(
    "page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/decisions/README.md"]
)
def test_every_path_and_link_of_a_page_exists(page: str) -> None:
    place = ROOT / page
    text = re.sub(r"```.*?```", "", place.read_text(), flags=re.DOTALL)
    found = PATH.findall(text)
    missing = [path for path, _ in found if not (ROOT / path).exists()]
    missing += [link for link in LINK.findall(text) if not (place.parent / link).exists()]
    for path, name in found:
        if name and not re.search(rf"(?:def|class) {name}\b", (ROOT / path).read_text()):
            missing.append(f"{path}::{name}")
    assert not missing


def test_ten_questions_are_answered_with_a_file() -> None:
    rows = re.findall(r"^\| (.*\?) \| (.*) \|$", ARCHITECTURE, re.MULTILINE)
    assert len(rows) >= 20
    assert not [question for question, answer in rows if not PATH.search(answer)]


@pytest.mark.criterion("L-8")
def test_fifteen_questions_of_an_objects_life_lead_to_a_place_in_one_step() -> None:
    part = ARCHITECTURE.partition("## Where in an object's life?")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*\?) \| (.*) \|$", part, re.MULTILINE)
    assert len({question for question, _ in rows}) >= 15
    places = [PATH.match(answer) for _, answer in rows]
    assert all(place is not None and place[2] for place in places)


@pytest.mark.parametrize(
    "package",
    ["ctrlruntime/cache", "ctrlruntime/controller", "ctrlruntime/rollout", "apis", "manager"]
    + ["ctrlruntime/lifecycle", "ctrlruntime/sharding", "ctrlruntime/cli"]
    + [f"internal/{system}" for system in ("tenancy", "cloud", "cosmos", "fleet")],
)
def test_a_question_leads_to_each_part(package: str) -> None:
    rows = re.findall(r"^\| .*\? \| (.*) \|$", ARCHITECTURE, re.MULTILINE)
    files = [path for answer in rows for path, _ in PATH.findall(answer)]
    assert [path for path in files if path.startswith(f"{package}/")]


def test_four_ways_of_data_are_drawn() -> None:
    assert ARCHITECTURE.count("```mermaid\nflowchart") == 4


def test_each_folder_of_tests_is_on_the_map() -> None:
    folders = {
        path.parent.relative_to(ROOT / "tests").parts[0]
        for path in (ROOT / "tests").rglob("*/*.py")
    }
    listed = set(re.findall(r"`tests/([\w]+)/`", CONTRIBUTING))
    assert listed == folders - {"__pycache__"}


def test_the_index_of_decisions_is_complete() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text()
    rows = re.findall(
        r"^\| \[.+\]\((.+\.md)\) \| (\d{4}-\d\d-\d\d) \| (\w+) \|", index, re.MULTILINE
    )
    assert sorted(name for name, _, _ in rows) == sorted(
        path.name for path in folder.glob("*.md") if path.name != "README.md"
    )
    assert {status for *_, status in rows} <= {"accepted", "superseded"}


def test_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    # Continued lines of .PHONY name all targets.
    names = re.findall(r"^\.PHONY:((?:.*\\\n)*.*)", makefile, re.MULTILINE)
    targets = {name for line in names for name in line.replace("\\", " ").split()}
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.MULTILINE)
    targets |= {name for rule in rules for name in rule.split()}
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {name for line in done.stdout.splitlines() for name in line[:20].split()}
    listed |= {name for line in done.stdout.splitlines() for name in line.split("  ")[0].split()}
    assert targets <= listed


def test_the_glossary_has_a_term_and_its_upstream_name_in_two_lines() -> None:
    entries = re.findall(
        r"^\*\*(.+?)\*\* .+\\\n(?:Upstream|Kubernetes|controller-runtime|client-go|asyncio): .+$",
        GLOSSARY,
        re.MULTILINE,
    )
    assert len(entries) >= 35
    assert len(entries) == GLOSSARY.count("\n**")
    assert entries == sorted(entries, key=str.lower)
