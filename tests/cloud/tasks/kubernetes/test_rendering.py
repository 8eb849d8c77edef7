"""Bundles become manifests: files, kustomizations, charts; and what is wrong with them is said."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from apis.cloud import Bundle
from internal.cloud.tasks import TaskError, TaskRejected
from internal.cloud.tasks.kubernetes.access import checked
from internal.cloud.tasks.kubernetes.documents import Document, parse
from internal.cloud.tasks.kubernetes.rendering import Rendering, render
from internal.cloud.tasks.placeholders import Places
from tests.envtest.kubectl.binaries import provisioned

PLACES = Places(
    values={"instance": "acme", "version": "5.2.0", "domain": None}, outputs={"db": "10.0.0.5"}
)


def rendered(
    folder: Path,
    *,
    files: dict[str, str] | None = None,
    values_files: tuple[str, ...] = (),
    **bundle: object,
) -> list[Document]:
    return asyncio.run(
        render(
            Rendering(
                bundle=Bundle.model_validate(bundle),
                values_files=values_files,
                files=files or {},
                release="acme",
                namespace="prod",
                folder=folder,
                places=PLACES,
            )
        )
    )


CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: '${version}', day: 2026-01-02}\n"


class TestFiles:
    def test_documents_and_lists_are_taken_apart(self, tmp_path: Path) -> None:
        listed = (
            "apiVersion: v1\nkind: List\nitems:\n"
            "- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n---\n---\n" + CONFIG
        )
        found = rendered(tmp_path, files={"b.yaml": CONFIG, "a.yml": listed})
        assert [each.manifest["kind"] for each in found] == ["Secret", "ConfigMap", "ConfigMap"]
        assert found[0].source == "a.yml, document 1, document 1"

    def test_places_are_filled_and_dates_stay_texts(self, tmp_path: Path) -> None:
        [document] = rendered(tmp_path, files={"a.yaml": CONFIG})
        assert document.manifest["data"] == {"v": "5.2.0", "day": "2026-01-02"}

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("a: [", "a.yaml is not YAML"),
            ("- 1", "a.yaml, document 1: a manifest is a mapping, not a list"),
            ("kind: Secret", "a.yaml, document 1: apiVersion is missing"),
            ("apiVersion: v1", "a.yaml, document 1: kind is missing"),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}",
                "a.yaml, document 1: Pod has no metadata.name",
            ),
            (
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {on: y}",
                "a.yaml, document 1: the key True is no text",
            ),
            ("apiVersion: a/b/c\nkind: Pod\nmetadata: {name: x}", "a.yaml, document 1: "),
        ],
    )
    def test_what_is_no_manifest_is_named(self, text: str, says: str) -> None:
        with pytest.raises(TaskRejected) as caught:
            parse(text, "a.yaml")
        assert says in str(caught.value)

    def test_a_file_of_another_sort_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(TaskRejected, match=r"README\.md in the bundle is no manifest"):
            rendered(tmp_path, files={"README.md": "# hello"})

    def test_a_missing_output_is_refused(self, tmp_path: Path) -> None:
        text = CONFIG.replace("${version}", "${outputs.nothing}")
        with pytest.raises(TaskRejected, match=r"outputs\.nothing"):
            rendered(tmp_path, files={"a.yaml": text})


class TestKustomize:
    FILES = (
        ("kustomization.yaml", "resources: [base__a.yaml]\nnamePrefix: ${instance}-\n"),
        ("base__a.yaml", CONFIG),
    )

    @pytest.fixture(autouse=True)
    def _kubectl(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = provisioned().parent
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def test_it_is_rendered_by_kubectl(self, tmp_path: Path) -> None:
        files = {
            name: text.replace("base__", "base/") if name[0] == "k" else text
            for name, text in self.FILES
        }
        [document] = rendered(tmp_path, files=files, kustomize=True)
        assert document.manifest["metadata"]["name"] == "acme-a"
        assert document.manifest["data"]["v"] == "5.2.0"

    def test_values_files_are_patches_on_top(self, tmp_path: Path) -> None:
        patch = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {v: patched}\n"
        files = {
            "kustomization.yaml": "resources: [a.yaml]\n",
            "a.yaml": CONFIG,
            "over.yaml": patch,
        }
        [document] = rendered(tmp_path, files=files, values_files=("over.yaml",), kustomize=True)
        assert document.manifest["data"]["v"] == "patched"

    def test_its_own_words_are_passed_on(self, tmp_path: Path) -> None:
        with pytest.raises(TaskError, match=r"kubectl kustomize failed: .*nowhere"):
            rendered(
                tmp_path,
                files={"kustomization.yaml": "resources: [nowhere.yaml]\n"},
                kustomize=True,
            )

    def test_a_bundle_without_one_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(TaskRejected, match=r"the bundle has no kustomization\.yaml"):
            rendered(tmp_path, files={"a.yaml": CONFIG}, kustomize=True)

    def test_no_file_leads_out_of_the_bundle(self, tmp_path: Path) -> None:
        with pytest.raises(TaskRejected, match="leads out of the bundle"):
            rendered(tmp_path, files={"..__..__x.yaml": CONFIG}, kustomize=True)
        assert not (tmp_path.parent / "x.yaml").exists()


HELM = """#!/bin/sh
# Speaks what `helm template` promises: manifests on standard output, complaints on the other.
printf '%s\\n' "$@" > "$HOME/arguments"
for last; do :; done
cat "$last" > "$HOME/values"
[ "$3" = broken ] && { echo "Error: no chart $3" >&2; exit 1; }
[ "$3" = endless ] && exec yes
[ "$3" = loud ] && { yes | head -c 10000000 >&2; echo "Error: loud" >&2; exit 1; }
printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: chart}\\n'
"""


class TestHelm:
    @pytest.fixture(autouse=True)
    def _helm(
        self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path_factory.mktemp("bin")
        (folder / "helm").write_text(HELM)
        (folder / "helm").chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def test_a_chart_is_rendered_with_its_values(self, tmp_path: Path) -> None:
        chart = {
            "chart": "web",
            "repository": "https://charts.example.com",
            "version": "${version}",
            "values": {"host": "${outputs.db}", "replicas": 2},
        }
        [document] = rendered(
            tmp_path, files={"v.yaml": "a: 1"}, values_files=("v.yaml",), helm=chart
        )
        assert document.manifest["metadata"]["name"] == "chart"
        arguments = (tmp_path / "arguments").read_text().split("\n")
        assert arguments[:3] == ["template", "acme", "web"]
        assert arguments[5:11] == [
            "--namespace",
            "prod",
            "--repo",
            "https://charts.example.com",
            "--version",
            "5.2.0",
        ]
        assert arguments[11:13] == ["--values", str(tmp_path / "bundle/v.yaml")]
        assert (tmp_path / "values").read_text() == "host: 10.0.0.5\nreplicas: 2\n"

    def test_a_chart_in_the_bundle(self, tmp_path: Path) -> None:
        files = {"chart__Chart.yaml": "name: web\nversion: 1.0.0\napiVersion: v2\n"}
        rendered(tmp_path, files=files, helm={"chart": "./chart"})
        assert (tmp_path / "arguments").read_text().split("\n")[2] == str(tmp_path / "bundle/chart")

    @pytest.mark.parametrize("chart", ["./../../etc", "--post-renderer=x"])
    def test_a_chart_is_nothing_else(self, tmp_path: Path, chart: str) -> None:
        with pytest.raises(TaskRejected):
            rendered(tmp_path, helm={"chart": chart})

    def test_its_own_words_are_passed_on(self, tmp_path: Path) -> None:
        with pytest.raises(TaskError, match="helm template failed: Error: no chart broken"):
            rendered(tmp_path, helm={"chart": "broken"})

    def test_no_more_of_what_it_prints_is_kept_than_a_bundle_may_have(self, tmp_path: Path) -> None:
        """S-F9: all of it was kept, until the memory of the run was at its end."""
        with pytest.raises(TaskRejected, match="chart endless is larger than 16,777,216 bytes"):
            rendered(tmp_path, helm={"chart": "endless"})

    def test_of_complaints_without_an_end_the_last_ones_are_passed_on(self, tmp_path: Path) -> None:
        with pytest.raises(TaskError, match=r"(?s)helm template failed: .{1500}$") as caught:
            rendered(tmp_path, helm={"chart": "loud"})
        assert str(caught.value).endswith("y\ny\nError: loud")

    def test_a_machine_without_helm_reports_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", "/nonexistent")
        with pytest.raises(TaskRejected, match="needs the program helm"):
            rendered(tmp_path, helm={"chart": "web"})


class TestValuesFiles:
    def test_they_have_to_be_in_the_bundle(self, tmp_path: Path) -> None:
        with pytest.raises(TaskRejected, match=r"names over\.yaml, which no ConfigMap"):
            rendered(tmp_path, values_files=("over.yaml",), helm={"chart": "web"})

    def test_plain_manifests_have_none(self, tmp_path: Path) -> None:
        with pytest.raises(TaskRejected, match="is for bundles with kustomize or helm"):
            rendered(tmp_path, files={"a.yaml": CONFIG}, values_files=("a.yaml",))


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:1"{cluster}}}}}]
users: [{{name: u, user: {{token: t{user}}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
"""


class TestKubeconfigs:
    def test_data_in_the_file_itself_is_fine(self) -> None:
        text = KUBECONFIG.format(cluster="", user="")
        assert checked(text, "s", allow_exec=False) == text

    @pytest.mark.parametrize(
        ("cluster", "user", "says"),
        [
            (", certificate-authority: /etc/passwd", "", "uses certificate-authority"),
            ("", ", tokenFile: /var/run/secrets/token", "uses tokenFile"),
            ("", ", client-key: /root/key", "uses client-key"),
            ("", ", exec: {command: /bin/sh}", "runs a program to sign in"),
        ],
    )
    def test_files_and_programs_of_the_machine_are_refused(
        self, cluster: str, user: str, says: str
    ) -> None:
        with pytest.raises(TaskRejected, match=says):
            checked(KUBECONFIG.format(cluster=cluster, user=user), "s", allow_exec=False)

    def test_programs_can_be_allowed(self) -> None:
        text = KUBECONFIG.format(cluster="", user=", exec: {command: gke-gcloud-auth-plugin}")
        assert checked(text, "s", allow_exec=True) == text

    @pytest.mark.parametrize("text", ["", "[1]", "a: ["])
    def test_nonsense_is_refused_without_showing_it(self, text: str) -> None:
        with pytest.raises(TaskRejected, match="the kubeconfig in Secret s is"):
            checked(text, "s", allow_exec=False)
