"""Pages of the documentation site that are made from the code while it is built: a hook of mkdocs.

`reference/kinds/KIND.md` has every field of a kind, from the CRDs in config/crd; `reference/commands.md` every command of
`manager` with its options; `reference/options.md` every option of the library with its default; `reference/metrics.md` every metric;
`reference/python/PACKAGE.md` what a package of ctrlruntime exports, from its docstrings;
`operations/alerts.md` every alert with its runbook. The first page is README.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from hack.signatures import options, packages
from manager.cli import main
from manager.manifests.metric_catalogue import PARTS, families

ROOT = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder in the place of a navigation entry that ends with a slash."""
    config.nav = _filled(config.nav, sorted({*_written(Path(config.docs_dir)), *dict(pages())}))
    return config


def _written(docs: Path) -> Iterator[str]:
    yield from (str(path.relative_to(docs)) for path in docs.rglob("*.md"))


def _filled(entry: object, known: list[str]) -> object:
    if isinstance(entry, list):
        return [_filled(item, known) for item in entry]
    if isinstance(entry, dict):
        return {title: _filled(item, known) for title, item in entry.items()}
    if isinstance(entry, str) and entry.endswith("/"):
        found = [path for path in known if path.startswith(entry)]
        return sorted(found, key=lambda path: (not path.endswith("README.md"), path))
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those of docs/."""
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every generated page."""
    for source in sorted((ROOT / "config" / "crd" / "bases").glob("*.yaml")):
        definition = yaml.safe_load(source.read_text())
        yield f"reference/kinds/{definition['spec']['names']['singular']}.md", kind_page(definition)
    yield (
        "reference/commands.md",
        "# Commands and flags\n\n" + "\n".join(command_sections(main, "manager")),
    )
    yield "reference/metrics.md", metrics_page()
    yield "reference/options.md", options_page()
    yield "operations/alerts.md", alerts_page()
    for page, file in (
        ("index.md", "README.md"),
        ("contributing.md", "CONTRIBUTING.md"),
        ("changelog.md", "CHANGELOG.md"),
    ):
        yield page, within((ROOT / file).read_text())
    for package in packages():
        yield (
            f"reference/python/{package}.md",
            f"# ctrlruntime.{package}\n\n::: ctrlruntime.{package}\n",
        )


def within(text: str) -> str:
    """Return a text from the repository's root with its links as they are on the site: what is no page becomes a path."""
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
    return re.sub(
        r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)#]+)\)",
        lambda m: m[0] if m[2].endswith(".md") else f"{m[1]} (`{m[2]}`)",
        text,
    )


def kind_page(definition: dict[str, Any]) -> str:
    """Return the page of one CRD: what `kubectl explain --recursive` tells, with defaults and limits."""
    spec = definition["spec"]
    lines = [f"# {spec['names']['kind']}", ""]
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        lines += [schema.get("description", ""), ""]
        lines += [f"`apiVersion: {spec['group']}/{version['name']}`, {spec['scope'].lower()}", ""]
        if columns := version.get("additionalPrinterColumns"):
            lines += ["## Columns", "", "| column | shows |", "|---|---|"]
            lines += [_row(c["name"], f"`{c['jsonPath']}`") for c in columns] + [""]
        for part in ("spec", "status"):
            if part in schema.get("properties", {}):
                lines += [f"## {part}", "", "| field | type | |", "|---|---|---|"]
                lines += [_row(*field) for field in fields(schema["properties"][part], part)] + [""]
    return "\n".join(lines)


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the type and the description of a schema's fields, depth first."""
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        yield f"`{here}`", _type(field), _about(field, required=name in required)
        yield from fields(field, here)
        if isinstance(items := field.get("items"), dict):
            yield from fields(items, f"{here}[]")
        if isinstance(values := field.get("additionalProperties"), dict):
            yield from fields(values, f"{here}.*")


def _type(field: dict[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return kind


def _about(field: dict[str, Any], *, required: bool) -> str:
    said = [str(field.get("description", "")).strip()]
    said += ["Required."] if required else []
    if "default" in field:
        said.append(
            f"Default: `{yaml.safe_dump(field['default'], default_flow_style=True).removesuffix(chr(10)).removesuffix('...').strip()}`."
        )
    if "enum" in field:
        said.append("One of " + ", ".join(f"`{value}`" for value in field["enum"]) + ".")
    limits = [
        f"{key} {field[key]}"
        for key in ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
        if key in field
    ]
    said += [", ".join(limits).capitalize() + "."] if limits else []
    said += [
        f"Rule: {rule.get('message') or rule['rule']}."
        for rule in field.get("x-kubernetes-validations", ())
    ]
    return " ".join(part for part in said if part)


def metrics_page() -> str:
    """Return the page of all metrics, by system."""
    found = list(families())
    lines = ["# Metrics", "", "Served on `/metrics`, in the format of Prometheus.", ""]
    for system in PARTS:
        lines += [f"## {system}", "", "| metric | type | |", "|---|---|---|"]
        lines += [
            _row(
                f"`{each.name}{'_total' if each.kind == 'counter' else ''}`",
                each.kind,
                each.text,
            )
            for each in found
            if each.system == system
        ] + [""]
    return "\n".join(lines)


def options_page() -> str:
    """Return the page of all options of the library, with their types and defaults."""
    lines = [
        "# Options and their defaults",
        "",
        "All are given by keyword. Times are in seconds.",
        "",
    ]
    for package, name, found in options():
        lines += [f"## {name}", "", f"`from ctrlruntime.{package} import {name}`", ""]
        lines += ["| option | type | default | |", "|---|---|---|---|"]
        lines += [
            _row(f"`{option}`", f"`{kind}`", f"`{default}`" if default else "required", text)
            for option, kind, default, text in found
        ]
        lines.append("")
    return "\n".join(lines)


def alerts_page() -> str:
    """Return the page of all alerts, with their expressions and runbooks."""
    rules = yaml.safe_load((ROOT / "config" / "prometheus" / "rules.yaml").read_text())
    lines = ["# Alerts", "", "The rules of `config/prometheus`, each with a runbook.", ""]
    for group in rules["spec"]["groups"]:
        lines += [
            f"## {group['name']}",
            "",
            "| alert | severity | after | means |",
            "|---|---|---|---|",
        ]
        lines += [
            _row(
                f"[{rule['alert']}](../runbooks/{rule['alert']}.md)",
                rule["labels"]["severity"],
                rule.get("for", "at once"),
                rule["annotations"]["summary"],
            )
            for rule in group["rules"]
        ] + [""]
    return "\n".join(lines)


def command_sections(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[str]:
    """Yield the sections of a command and, depth first, of those below it."""
    context = click.Context(command, info_name=name, parent=parent)
    yield f"## {context.command_path}\n"
    yield (command.help or "").split("\f")[0].strip() + "\n"
    options = [p.get_help_record(context) for p in command.params]
    rows = [record for record in options if record is not None]
    if rows:
        yield "| option | |\n|---|---|"
        yield "\n".join(_row(f"`{flag}`", about) for flag, about in rows) + "\n"
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if found is not None and not found.hidden:
                yield from command_sections(found, sub, context)


def _row(*cells: str) -> str:
    escaped = (cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in cells)
    return "| " + " | ".join(escaped) + " |"
