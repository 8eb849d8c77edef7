"""Which API servers `make test` provisions: a supported release, from the cache or the official builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "hack" / "envtest-assets.sh"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager")


def install(folder: Path, *names: str) -> Path:
    """Programs that can be run."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\n# {name}\n")
        (folder / name).chmod(0o755)
    return folder


def provision(cache: Path, tools: Path) -> subprocess.CompletedProcess[str]:
    """Run `envtest-assets.sh` where the network leads nowhere and every tool of a build fails."""
    tools.mkdir(exist_ok=True)
    for name in ("apt-get", "apt-cache", "dpkg-query", "dpkg-deb", "go", "make"):
        (tools / name).write_text("#!/bin/sh\necho built >&2\nexit 9\n")
        (tools / name).chmod(0o755)
    closed = "http://127.0.0.1:9"
    known = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "CTRLRUNTIME_ENVTEST_ASSETS": str(cache),
        "CTRLRUNTIME_ENVTEST_INDEX": closed,
        "CTRLRUNTIME_ENVTEST_DOWNLOADS": closed,
    }
    return subprocess.run(
        [SCRIPT], env=os.environ | known, capture_output=True, text=True, timeout=300
    )


@pytest.mark.criterion("EN-03")
def test_the_newest_supported_release_in_the_cache_is_used(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    install(cache / "v1.9.9", *CONTROL_PLANE)
    install(cache / "v1.27.16", *CONTROL_PLANE)
    newest = install(cache / "v1.36.2", *CONTROL_PLANE)
    install(cache / "v1.40.0", "etcd", "kube-apiserver")
    done = provision(cache, tmp_path / "tools")
    assert done.returncode == 0, done.stderr
    assert f"kube-apiserver v1.36.2 is in {newest}" in done.stderr
    assert "built" not in done.stderr
    (newest / "etcd").unlink()
    assert "v1.27.16" in provision(cache, tmp_path / "tools").stderr


@pytest.mark.parametrize("release", ["", "v1.26.9"], ids=["none", "not supported"])
def test_without_one_and_without_a_network_it_reports_it_and_builds_nothing(
    tmp_path: Path, release: str
) -> None:
    if release:
        install(tmp_path / "cache" / release, *CONTROL_PLANE)
    done = provision(tmp_path / "cache", tmp_path / "tools")
    assert done.returncode == 0, done.stderr
    assert "no index of envtest releases" in done.stderr
    assert "tests on a real server are skipped" in done.stderr
    assert "built" not in done.stderr


@pytest.mark.parametrize("given", ["installed", "broken", "missing"])
def test_ci_takes_the_servers_beside_the_checkout_where_there_are_some(
    tmp_path: Path, given: str
) -> None:
    checkout, shared, tools = (tmp_path / name for name in ("checkout", "shared", "tools"))
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    script = {"#!/bin/sh": tools / "xz", '#!/bin/sh\necho make "$@"': tools / "make"}
    tools.mkdir()
    if given != "missing":
        (shared / "envtest").mkdir(parents=True)
        code = 1 if given == "broken" else 0
        script[f"#!/bin/sh\necho install\nexit {code}"] = shared / "envtest" / "install"
    for text, path in script.items():
        path.write_text(text + "\n")
        path.chmod(0o755)
    done = subprocess.run(
        [checkout / ".ci" / "run"],
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "make test TESTS=ci"
    assert ("install" in done.stdout) is (given != "missing")
    assert ("find their API server without it" in done.stderr) is (given == "broken")
