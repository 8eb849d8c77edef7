"""Which API servers `make test` provisions: a supported release before a build of an old one."""

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
    """Programs with their sums, as the scripts leave them."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\n# {name}\n")
        (folder / name).chmod(0o755)
    sums = subprocess.run(["sha256sum", *names], cwd=folder, capture_output=True, check=True)
    (folder / "SHA256SUMS").write_bytes(sums.stdout)
    return folder


def provision(cache: Path, what: str = "all", **environ: str) -> subprocess.CompletedProcess[str]:
    """`envtest-assets.sh WHAT`, where the network leads nowhere and nothing can be built."""
    closed = "http://127.0.0.1:9"
    known = {
        "PYTHON": sys.executable,
        "CTRLRUNTIME_ENVTEST_ASSETS": str(cache),
        "CTRLRUNTIME_ENVTEST_INDEX": closed,
        "CTRLRUNTIME_ENVTEST_DOWNLOADS": closed,
        **environ,
    }
    return subprocess.run(
        [SCRIPT, what], env=os.environ | known, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def no_build(tmp_path: Path) -> dict[str, str]:
    """A PATH on which every tool of a build fails."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg-query", "dpkg-deb", "go", "make", "uv"):
        (tools / name).write_text("#!/bin/sh\necho built >&2\nexit 9\n")
        (tools / name).chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


@pytest.mark.criterion("EN-03")
def test_a_supported_release_in_the_cache_is_all_there_is(
    tmp_path: Path, no_build: dict[str, str]
) -> None:
    cache = tmp_path / "cache"
    install(cache / "v1.9.9", *CONTROL_PLANE)
    install(cache / "v1.27.16", *CONTROL_PLANE)
    newest = install(cache / "v1.36.2", *CONTROL_PLANE)
    install(cache / "v1.40.0", "etcd", "kube-apiserver")
    done = provision(cache, **no_build)
    assert done.returncode == 0, done.stderr
    assert str(newest) in done.stderr
    assert "built" not in done.stderr
    assert not (cache / "v1.20.2").exists()
    (newest / "etcd").write_text("damaged")
    assert "v1.27.16" in provision(cache, **no_build).stderr


def test_what_was_built_before_is_used_without_asking_the_network(
    tmp_path: Path, no_build: dict[str, str]
) -> None:
    cache = tmp_path / "cache"
    install(cache / "v1.20.2", *CONTROL_PLANE)
    install(cache / "apiextensions-1.36", "apiextensions-apiserver", "etcd")
    done = provision(cache, **no_build)
    assert done.returncode == 0, done.stderr
    assert "official build" not in done.stderr
    assert "v1.20.2 is in" in done.stderr


def test_without_any_the_official_builds_come_before_a_build(
    tmp_path: Path, no_build: dict[str, str]
) -> None:
    done = provision(tmp_path / "cache", **no_build)
    assert done.returncode != 0
    asked, built = (
        done.stderr.index(words) for words in ("looking for an official build", "are built from")
    )
    assert asked < built


def test_a_sample_of_the_tests_never_waits_for_a_build(
    tmp_path: Path, no_build: dict[str, str]
) -> None:
    cache = tmp_path / "cache"
    done = provision(cache, "prebuilt", **no_build)
    assert done.returncode == 0, done.stderr
    assert "tests on a real server are skipped" in done.stderr
    assert "are built from" not in done.stderr
    install(cache / "v1.36.2", *CONTROL_PLANE)
    assert "v1.36.2 is in" in provision(cache, "prebuilt", **no_build).stderr


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
