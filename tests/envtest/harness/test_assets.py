"""Where programs are found: variables, folders, the cache, the official archive with its checksum."""

from __future__ import annotations

import hashlib
import io
import platform
import sys
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ctrlruntime.envtest.archive import KUBE_CONTROLLER_MANAGER, Archive, ArchiveError
from ctrlruntime.envtest.assets import (
    CONTROL_PLANE,
    KUBE_APISERVER,
    Assets,
    AssetsMissing,
    control_planes,
    supported,
)

pytestmark = pytest.mark.criterion("EN-03")
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def install(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"#!/bin/sh\n# {folder}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def assets(tmp_path: Path, **environ: str) -> Assets:
    """Nothing but what the test puts there; downloads fail."""
    known = {"CTRLRUNTIME_ENVTEST_ASSETS": str(tmp_path / "cache"), **environ}
    known.setdefault("CTRLRUNTIME_ENVTEST_INDEX", "http://127.0.0.1:9/none.yaml")
    known.setdefault("CTRLRUNTIME_ENVTEST_DOWNLOADS", "http://127.0.0.1:9")
    return Assets(known, system=tmp_path / "system")


def test_variables_come_before_folders_and_those_before_the_cache(
    tmp_path: Path, cache: Path
) -> None:
    given, system = tmp_path / "given", tmp_path / "system"
    for folder in (cache / "v1.100.2", cache / "v1.29.9", cache / "v1.26.9", system, given):
        install(folder, *KUBE_APISERVER)
        if folder.name == "v1.26.9":
            assert assets(tmp_path).find()["etcd"].parent.name == "v1.100.2", "the newest release"
    by_folder = assets(tmp_path, KUBEBUILDER_ASSETS=str(given)).find()
    assert by_folder == {name: given / name for name in KUBE_APISERVER}
    other = install(tmp_path / "other", "my-etcd") / "my-etcd"
    both = assets(tmp_path, KUBEBUILDER_ASSETS=str(given), TEST_ASSET_ETCD=str(other)).find()
    assert both == {"etcd": other, "kube-apiserver": given / "kube-apiserver"}
    named = assets(tmp_path, TEST_ASSET_KUBE_APISERVER=str(other)).find(["kube-apiserver"])
    assert named == {"kube-apiserver": other}
    assert assets(tmp_path).find()["etcd"] == system / "etcd"
    assert assets(tmp_path).find(release="v1.26.9")["etcd"] == cache / "v1.26.9" / "etcd"


def test_a_release_that_is_not_supported_is_used_only_by_name(tmp_path: Path, cache: Path) -> None:
    old = install(cache / "v1.26.9", *CONTROL_PLANE)
    with pytest.raises(AssetsMissing, match="not on this machine"):
        assets(tmp_path).find()
    assert assets(tmp_path).find(release="v1.26.9")["etcd"] == old / "etcd"


def test_whole_control_planes_are_listed_newest_first(cache: Path) -> None:
    for release in ("v1.34.2", "v1.26.9", "v1.36.2", "v1.9.9"):
        install(cache / release, *CONTROL_PLANE)
    install(cache / "v1.37.0", *KUBE_APISERVER)
    found = control_planes({"CTRLRUNTIME_ENVTEST_ASSETS": str(cache)})
    assert [folder.name for folder in found] == ["v1.36.2", "v1.34.2"]


def test_all_programs_come_from_one_release(tmp_path: Path, cache: Path) -> None:
    install(tmp_path / "system", *KUBE_APISERVER)
    install(cache / "v1.32.0", *KUBE_APISERVER)
    whole = install(cache / "v1.31.2", *KUBE_APISERVER, "kube-controller-manager")
    found = assets(tmp_path).find((*KUBE_APISERVER, "kube-controller-manager"))
    assert {path.parent for path in found.values()} == {whole}


def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(AssetsMissing, match=r"etcd, kube-apiserver: .*`make envtest-assets`"):
        assets(tmp_path).find()
    with pytest.raises(AssetsMissing, match=r"v1\.99\.0.*no index of envtest releases"):
        assets(tmp_path).find(release="v1.99.0")
    half = install(tmp_path / "half", "etcd")
    with pytest.raises(AssetsMissing, match="KUBEBUILDER_ASSETS is set, but incomplete"):
        assets(tmp_path, KUBEBUILDER_ASSETS=str(half)).find()
    with pytest.raises(AssetsMissing, match=r"TEST_ASSET_.*no program.*etcd"):
        assets(tmp_path, TEST_ASSET_ETCD=str(tmp_path / "none")).find()
    with pytest.raises(AssetsMissing, match="no official build of apiextensions-apiserver"):
        assets(tmp_path).find(["apiextensions-apiserver"])


# The archive


def tarball() -> bytes:
    """As upstream packs it: programs in a folder; and something that wants out of it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name in ("controller-tools/envtest/etcd", "controller-tools/envtest/kube-apiserver"):
            member = tarfile.TarInfo(name)
            member.size, member.mode = 1000, 0o755
            tar.addfile(member, io.BytesIO(b"x" * 1000))
        link = tarfile.TarInfo("controller-tools/envtest/kubectl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return packed.getvalue()


class Upstream:
    """An index and archives on a loopback server, which counts what is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        upstream = self

        class Handler(SimpleHTTPRequestHandler):
            def log_request(self, *_: object) -> None:
                upstream.asked.append(self.path)

            def log_message(self, *_: object) -> None: ...

        handler = partial(Handler, directory=str(folder))
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def publish(self, release: str, data: bytes, *, sum_of: bytes | None = None) -> None:
        name = f"envtest-{release}-{sys.platform}-{MACHINE}.tar.gz"
        (self.folder / name).write_bytes(data)
        index = self.folder / "index.yaml"
        known = yaml.safe_load(index.read_text()) if index.exists() else {"releases": {}}
        digest = hashlib.sha512(data if sum_of is None else sum_of).hexdigest()
        entry = {"hash": digest, "selfLink": f"{self.url}/{name}"}
        known["releases"][release] = {name: entry}
        index.write_text(yaml.safe_dump(known))

    def publish_program(self, release: str, name: str, data: bytes, *, sum_of: bytes) -> None:
        folder = self.folder / release / "bin" / sys.platform / MACHINE
        folder.mkdir(parents=True)
        (folder / name).write_bytes(data)
        (folder / f"{name}.sha512").write_text(hashlib.sha512(sum_of).hexdigest() + "\n")

    @property
    def environ(self) -> dict[str, str]:
        return {
            "CTRLRUNTIME_ENVTEST_INDEX": f"{self.url}/index.yaml",
            "CTRLRUNTIME_ENVTEST_DOWNLOADS": self.url,
        }


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    folder = tmp_path / "upstream"
    folder.mkdir()
    served = Upstream(folder)
    thread = threading.Thread(target=served.server.serve_forever, args=(0.02,))
    thread.start()
    yield served
    served.server.shutdown()
    thread.join()
    served.server.server_close()


def test_a_release_is_downloaded_when_nothing_else_has_it(
    tmp_path: Path, cache: Path, upstream: Upstream, capfd: pytest.CaptureFixture[str]
) -> None:
    for release in ("v1.31.0", "v1.32.1", "v1.33.0-rc.1"):
        upstream.publish(release, tarball())
    found = assets(tmp_path, **upstream.environ).find()
    assert found["etcd"] == cache / "v1.32.1" / "etcd", "the newest stable one"
    assert sorted(path.name for path in (cache / "v1.32.1").iterdir()) == sorted(KUBE_APISERVER)
    assert "100 %" in capfd.readouterr().err
    before = len(upstream.asked)
    assets(tmp_path, **upstream.environ).find()
    assert len(upstream.asked) == before, "what is cached is not asked for"
    old = assets(tmp_path, **upstream.environ).find(release="v1.31.0")
    assert old["etcd"] == cache / "v1.31.0" / "etcd"


@pytest.mark.parametrize("damage", ["corrupt", "short", "absent", "unlisted", "no tarball"])
def test_what_is_not_what_the_index_lists_is_never_installed(
    damage: str, tmp_path: Path, cache: Path, upstream: Upstream
) -> None:
    good = tarball()
    if damage == "corrupt":
        upstream.publish("v1.32.1", good[:-1] + b"!", sum_of=good)
    elif damage == "short":
        upstream.publish("v1.32.1", good[:100], sum_of=good)
    elif damage == "no tarball":
        upstream.publish("v1.32.1", b"<html>")
    elif damage == "absent":
        upstream.publish("v1.32.1", good)
        for path in upstream.folder.glob("*.tar.gz"):
            path.unlink()
    else:
        upstream.publish("v1.31.0", good)
    said = {
        "corrupt": "SHA-512",
        "short": "SHA-512",
        "absent": "404",
        "unlisted": "has no envtest-v1.32.1",
        "no tarball": "cannot be unpacked",
    }
    with pytest.raises(AssetsMissing, match=said[damage]):
        assets(tmp_path, **upstream.environ).find(release="v1.32.1")
    assert not (cache / "v1.32.1" / "kube-apiserver").exists()
    assert not list(cache.glob(".download-*"))


@pytest.mark.parametrize("damaged", [False, True])
def test_the_controller_manager_comes_from_the_downloads_of_the_same_release(
    damaged: bool, tmp_path: Path, cache: Path, upstream: Upstream
) -> None:
    upstream.publish("v1.32.1", tarball())
    upstream.publish_program(
        "v1.32.1", KUBE_CONTROLLER_MANAGER, b"x" * 1000, sum_of=b"y" if damaged else b"x" * 1000
    )
    names = (*KUBE_APISERVER, KUBE_CONTROLLER_MANAGER)
    if damaged:
        with pytest.raises(AssetsMissing, match="kube-controller-manager has SHA-512"):
            assets(tmp_path, **upstream.environ).find(names)
        assert not (cache / "v1.32.1").exists(), "a release is installed whole or not at all"
    else:
        found = assets(tmp_path, **upstream.environ).find(names)
        assert found == {name: cache / "v1.32.1" / name for name in names}


def test_a_whole_control_plane_is_downloaded_once_where_the_cache_has_none(
    tmp_path: Path, cache: Path, upstream: Upstream
) -> None:
    environ = upstream.environ | {"CTRLRUNTIME_ENVTEST_ASSETS": str(cache)}
    install(cache / "v1.26.9", *CONTROL_PLANE)
    install(cache / "v1.36.0", *KUBE_APISERVER)
    with pytest.raises(ArchiveError, match="no index of envtest releases"):
        supported(environ)
    upstream.publish("v1.32.1", tarball())
    program = b"#!/bin/sh\n"
    upstream.publish_program("v1.32.1", KUBE_CONTROLLER_MANAGER, program, sum_of=program)
    assert supported(environ) == cache / "v1.32.1"
    before = len(upstream.asked)
    assert supported(environ) == cache / "v1.32.1"
    assert len(upstream.asked) == before


def test_two_at_once_download_once(tmp_path: Path, cache: Path, upstream: Upstream) -> None:
    upstream.publish("v1.32.1", tarball())
    with ThreadPoolExecutor(4) as threads:
        archives = [Archive(cache, upstream.environ) for _ in range(4)]
        folders = list(threads.map(lambda archive: archive.provide(), archives))
    assert set(folders) == {cache / "v1.32.1"}
    assert sum(path.endswith(".tar.gz") for path in upstream.asked) == 1


def test_other_addresses_than_https_are_refused(cache: Path) -> None:
    with pytest.raises(ArchiveError, match="is not https"):
        Archive(cache, {"CTRLRUNTIME_ENVTEST_INDEX": "file:///etc/passwd"}).provide()
