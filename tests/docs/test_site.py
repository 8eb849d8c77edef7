"""`make docs` builds the site strictly, with the pages that are made from the code."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ctrlruntime import ControllerOptions
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.xdist_group("site")

NAV = yaml.safe_load((ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2])
CRDS = sorted((ROOT / "config" / "crd" / "bases").glob("*.yaml"))


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Run what `make docs` runs."""
    environment = {**os.environ, "PYTHON": sys.executable, "SITE_CONFIG": str(config)}
    command = [ROOT / "hack" / "site.sh", folder]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_of_the_documents_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    missing = {
        page
        for page in pages
        if not (site / page.with_suffix(".html")).exists()
        and not (page.name == "README.md" and (site / page.with_name("index.html")).exists())
    }
    assert missing == set()
    assert (site / "index.html").exists()


@pytest.mark.parametrize("source", CRDS, ids=lambda path: path.stem)
def test_every_field_of_a_kind_is_on_its_page_and_found_by_the_search(
    site: Path, source: Path
) -> None:
    definition = yaml.safe_load(source.read_text())
    name = definition["spec"]["names"]["singular"]
    page = (site / "reference" / "kinds" / f"{name}.html").read_text()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in ("spec", "status"):
        for field in schema["properties"][part]["properties"]:
            assert f"<code>{part}.{field}</code>" in page
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    assert any(entry["location"].startswith(f"reference/kinds/{name}.html") for entry in entries)


def test_commands_and_python_names_are_on_the_site(site: Path) -> None:
    assert "--leader-elect" in (site / "reference" / "commands.html").read_text()
    assert (
        "ctrlruntime.controller.Builder"
        in (site / "reference" / "python" / "controller.html").read_text()
    )


@pytest.mark.criterion("D-45")
def test_the_library_has_a_part_of_its_own_with_every_option(site: Path) -> None:
    parts = {name: part for entry in NAV for name, part in entry.items()}
    assert [*parts][1:3] == ["Library", "Manager"]
    chapters = [name for entry in parts["Library"] for name in entry]
    assert chapters == ["Start", "Tutorials", "How-to", "Concepts", "Reference", "Migrating"]
    page = (site / "reference" / "options.html").read_text()
    for name in ("ManagerOptions", "ControllerOptions", "ClientOptions", "ShardingOptions"):
        assert f">{name}<" in page
    options = dataclasses.fields(ControllerOptions)
    assert [each.name for each in options if f"<code>{each.name}</code>" not in page] == []


def test_the_site_loads_no_font_from_elsewhere(site: Path) -> None:
    assert "fonts.googleapis" not in (site / "index.html").read_text()


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Start\n\n[gone](gone.md)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text("site_name: one page\nstrict: true\nnav: [index.md]\n")
    done = build(tmp_path / "site", config)
    assert done.returncode != 0
    assert "gone.md" in done.stdout + done.stderr


def test_a_page_without_a_place_fails_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Start\n")
    (docs / "forgotten.md").write_text("# Forgotten\n")
    written = yaml.safe_load((ROOT / "mkdocs.yml").read_text().replace("!!python/name:", "!!str "))
    config = tmp_path / "mkdocs.yml"
    kept = {"site_name": "x", "nav": ["index.md"], "validation": written["validation"]}
    config.write_text(yaml.safe_dump(kept))
    done = build(tmp_path / "site", config)
    assert done.returncode != 0
    assert "forgotten.md" in done.stdout + done.stderr
