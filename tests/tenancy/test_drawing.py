"""Drawings of dependency graphs, read back by a parser, and `manager graph`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pydot
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import Tenant, TenantStatus, TenantTemplate, TResource
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator
from internal.tenancy.objects.drawing import COLOURS, Drawing, Mark, dot, mermaid
from manager.cli import main
from tests.docs.blocks import ROOT, blocks
from tests.manager_cli.program import Program

pytestmark = [
    pytest.mark.criterion("DX-10"),
    pytest.mark.filterwarnings("ignore:.*deprecated - use:DeprecationWarning"),  # of pydot's own
]


def resource(id_: str, *depends: str, kind: str = "ConfigMap", skip: bool = True) -> TResource:
    manifest = {"apiVersion": "v1", "kind": kind, "metadata": {"name": id_}}
    given_ = {"id": id_, "spec": manifest, "dependIds": list(depends)}
    return TResource.model_validate({**given_, "skipOnDependencyFailure": skip})


SHOP = [
    resource("db", kind="StatefulSet"),
    resource("migrate", "db", kind="Job"),
    resource("web", "migrate", "dns", kind="Deployment"),
    resource("dns"),
    resource("report", "db", skip=False),
]


@st.composite
def resources(draw: st.DrawFn) -> list[TResource]:
    """Any kinds, and any edges: drawings show what cannot be put in order as well."""
    names = [f"r-{number}.x" for number in range(draw(st.integers(1, 6)))]
    return [
        resource(name, *draw(st.lists(st.sampled_from(names), max_size=3)), kind=draw(st.text()))
        for name in names
    ]


def edges_of(items: list[TResource]) -> set[tuple[str, str]]:
    return {(other, item.id) for item in items for other in item.depend_ids}


def read_dot(text: str) -> pydot.Dot:
    graphs = pydot.graph_from_dot_data(text)
    assert graphs is not None, text
    (graph,) = graphs
    return graph


def plain(quoted: object) -> str:
    return str(quoted).strip('"')


@given(resources())
def test_a_dot_parser_finds_every_resource_and_edge(items: list[TResource]) -> None:
    graph = read_dot(dot(Drawing.of(items)))
    names = {plain(node.get_name()) for node in graph.get_nodes()} - {"node"}
    assert names == {item.id for item in items}
    found = {(plain(e.get_source()), plain(e.get_destination())) for e in graph.get_edges()}
    assert found == edges_of(items)


MERMAID = re.compile(
    r'flowchart TD\n(    subgraph level\d+\["level \d+"\]\n|    end\n|    {1,2}(?:    )?n\d+\["[\w <>/#;.-]*"\]\n'
    r"|    n\d+ (?:-->|-\.->) n\d+\n|    classDef \w+ fill:#\w{6},stroke:#\w{6}\n|    class n\d+(?:,n\d+)* \w+\n)*"
)


@given(resources())
def test_mermaid_has_every_resource_and_edge_and_no_markup_of_a_kind(
    items: list[TResource],
) -> None:
    text = mermaid(Drawing.of(items))
    assert MERMAID.fullmatch(text), text
    nodes = dict(re.findall(r'(n\d+)\["([\w.-]+)', text))
    assert set(nodes.values()) == {item.id for item in items}
    found = {(nodes[a], nodes[b]) for a, b in re.findall(r"(n\d+) -->? ?(n\d+)", text)}
    assert found == edges_of(items)


def test_levels_dashed_edges_and_what_failed_are_drawn() -> None:
    status = TenantStatus(
        failed_resource_ids=["db"],
        skipped_resource_ids=["migrate", "web"],
        conflicted_resource_ids=["dns"],
    )
    text = mermaid(Drawing.of(SHOP, status))
    assert text.splitlines()[:4] == [
        "flowchart TD",
        '    subgraph level0["level 0"]',
        '        n0["db<br/>StatefulSet<br/>failed"]',
        '        n3["dns<br/>ConfigMap<br/>conflicted"]',
    ]
    assert "    n0 -.-> n4\n" in text
    assert "    n0 --> n1\n" in text
    for mark, names in ((Mark.FAILED, "n0"), (Mark.CONFLICTED, "n3"), (Mark.SKIPPED, "n1,n2")):
        assert f"    class {names} {mark}\n" in text
    graph = read_dot(dot(Drawing.of(SHOP, status)))
    styles = {
        (plain(e.get_source()), plain(e.get_destination())): e.get("style")
        for e in graph.get_edges()
    }
    assert styles == {edge: "dashed" if edge == ("db", "report") else None for edge in styles}
    (db,) = graph.get_node('"db"')
    assert plain(db.get("fillcolor")) == COLOURS[Mark.FAILED][0]
    ranks = [
        sorted(plain(node.get_name()) for node in level.get_nodes())
        for level in graph.get_subgraphs()
    ]
    assert ranks == [["db", "dns"], ["migrate", "report"], ["web"]]


TEMPLATE = {
    "apiVersion": "tenancy.ctrlruntime.dev/v1",
    "kind": "TenantTemplate",
    "metadata": {"name": "shop"},
}


def template(*items: TResource) -> dict[str, Any]:
    manifests = [item.to_wire() for item in items]
    return {**TEMPLATE, "spec": {"registryId": "shops", "manifests": manifests}}


def run(*arguments: str, given_: str = "") -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["graph", *arguments], input=given_)
    return done.exit_code, done.stdout, done.stderr


def test_the_command_draws_a_template_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    other = {**template(resource("alone")), "metadata": {"name": "other"}}
    manifests = [{"kind": "List", "items": [template(*SHOP)]}, {"kind": "Service"}, other]
    path.write_text(yaml.safe_dump_all(manifests))
    assert run("shop", "-f", str(path)) == (0, mermaid(Drawing.of(SHOP)), "")
    assert run("shop", "-f", str(path), "--format", "dot") == (0, dot(Drawing.of(SHOP)), "")
    assert run("-f", "-", given_=yaml.safe_dump(template(*SHOP)))[1] == mermaid(Drawing.of(SHOP))
    code, _, said = run("-f", str(path))
    assert (code, "has several: shop, other; name one" in said) == (1, True)
    code, _, said = run("shopp", "-f", str(path))
    assert (code, "has no TenantTemplate 'shopp', only: shop, other" in said) == (1, True)


def test_the_picture_in_the_documentation_is_what_the_command_draws() -> None:
    pictures = [block.text for block in blocks("docs/tenancy.md") if block.language == "mermaid"]
    sample = ROOT / "config" / "samples" / "tenanttemplate.yaml"
    assert run("-f", str(sample))[1] in pictures


def test_a_cycle_is_drawn_and_reported_with_its_path() -> None:
    items = [resource("a", "b"), resource("b", "a"), resource("c", "a", "gone")]
    code, drawn, said = run("-f", "-", given_=yaml.safe_dump(template(*items)))
    assert code == 1
    assert "    class n0,n1 cycle\n" in drawn
    assert "Error: circular dependency detected: a -> b -> a\n" in said
    assert "resource 'c' depends on 'gone', which the template does not have" in said


@pytest.mark.parametrize(
    ("given_", "reason"),
    [
        ("a: [", "is not YAML"),
        ("kind: Pod", "has no TenantTemplate"),
        (yaml.safe_dump({**TEMPLATE, "spec": {"configMaps": [{"id": "/"}]}}), "configMaps.0.id"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_the_reason(given_: str, reason: str) -> None:
    code, drawn, said = run("-f", "-", given_=given_)
    assert (code, drawn) == (1, "")
    assert reason in said


async def test_the_command_draws_a_template_and_a_tenant_of_a_cluster(tmp_path: Path) -> None:
    users = (administrator("admin"),)
    async with Environment("embedded-process", users=users, folder=tmp_path) as environment:
        await environment.install_crds(TenantTemplate, Tenant)
        async with Client.connect(environment.config("admin")) as client:
            made = template(*SHOP)
            made["metadata"] = {"name": "shop", "namespace": "shops"}
            await client.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shops"}}
            )
            await client.create(made)
            spec = {"uid": "a", "templateRef": "shop", "manifests": made["spec"]["manifests"]}
            head = {"apiVersion": TEMPLATE["apiVersion"], "kind": "Tenant"}
            metadata = {"name": "a-shop", "namespace": "shops"}
            await client.create({**head, "metadata": metadata, "spec": spec})
            status = {"failedResourceIds": ["db"], "skippedResourceIds": ["migrate", "web"]}
            await client.patch_status(Tenant, "a-shop", {"status": status}, namespace="shops")
        config = environment.kubeconfig("admin")

        async def drawn(*arguments: str) -> tuple[int, str]:
            where = ("--kubeconfig", config, "--namespace", "shops")
            async with await Program.start("graph", *where, *arguments) as program:
                return await program.wait(), program.output

        assert await drawn("shop") == (0, mermaid(Drawing.of(SHOP)))
        reported = TenantStatus.model_validate(status)
        assert await drawn("a-shop", "--tenant", "--format", "dot") == (
            0,
            dot(Drawing.of(SHOP, reported)),
        )
        code, said = await drawn("none")
        assert code == 1
        assert "not found" in said
