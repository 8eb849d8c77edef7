"""One oldest release of Kubernetes for code, charts and documents, and nothing in the product for older ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ctrlruntime.envtest.assets import OLDEST_SUPPORTED

ROOT = Path(__file__).parents[2]
OLDEST = ".".join(map(str, OLDEST_SUPPORTED))
OLDER = re.compile(
    r"(?:Kubernetes|servers?|kube-apiserver|before|since|until) (?:of |version |before )?v?1\.(?:[5-9]|1\d|2[0-6])\b",
    re.IGNORECASE,
)
HISTORY = "docs/decisions/"


def product_files() -> list[str]:
    """Code of the product, its manifests and what users read of it."""
    places = ["ctrlruntime", "apis", "internal", "manager", "config", "charts", "docs", "README.md"]
    command = ["git", "ls-files", *places]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        path
        for path in listed.stdout.splitlines()
        if path.endswith((".py", ".md", ".yaml")) and not path.startswith(HISTORY)
    ]


@pytest.mark.criterion("D")
def test_nothing_in_the_product_is_for_releases_older_than_the_oldest_supported() -> None:
    assert OLDEST_SUPPORTED == (1, 27)
    found = [
        f"{path}: {match[0]}"
        for path in product_files()
        if (ROOT / path).exists()
        for match in OLDER.finditer((ROOT / path).read_text())
    ]
    assert found == []


@pytest.mark.criterion("D")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("README.md", f"Kubernetes {OLDEST} and newer"),
        ("docs/deploy.md", f"Kubernetes {OLDEST} and newer is supported"),
        ("docs/envtest.md", f"a supported release ({OLDEST} or newer)"),
        ("charts/ctrlruntime-manager/Chart.yaml", f'kubeVersion: ">={OLDEST}.0-0"'),
        ("hack/bundle_files.py", f'"minKubeVersion": "{OLDEST}.0"'),
        ("hack/envtest-assets.sh", f"OLDEST_SUPPORTED={OLDEST_SUPPORTED[1]} "),
    ],
)
def test_the_oldest_supported_release_is_the_same_everywhere(path: str, text: str) -> None:
    assert text in (ROOT / path).read_text()
