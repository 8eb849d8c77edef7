"""What a node begins with is fetched, whole or not at all, and only where it is missing."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lz4.frame
import pytest
from click.testing import CliRunner

from internal.cosmos.sidecar.fetch import (
    FetchError,
    fetch_addrbook,
    fetch_genesis,
    fetch_snapshot,
)
from manager.node import node

GENESIS = b'{"chain_id": "test-1", "padding": "' + b"x" * 5000 + b'"}'


class Site:
    """A web server with files; those in `cut` end in their middle."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = site.files.get(self.path)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                whole = content or b""
                self.wfile.write(whole[: len(whole) // 2] if self.path in site.cut else whole)

            def log_message(self, *_args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def put(self, path: str, content: bytes) -> str:
        self.files[path] = content
        return f"http://127.0.0.1:{self.server.server_port}{path}"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def tar(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("__", "/").replace("_json", ".json"))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("_json", ".json"), content)
    return buffer.getvalue()


def blocks(home: Path) -> None:
    (home / "data" / "blockstore.db").mkdir(parents=True)


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda content: content,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "lz4": lz4.frame.compress,
    "tar": lambda content: tar(readme=b"no", genesis_json=content),
    "tar.gz": lambda content: gzip.compress(tar(genesis_json=content)),
    "tar.lz4": lambda content: lz4.frame.compress(tar(genesis_json=content)),
    "zip": lambda content: zipped(genesis_json=content, readme=b"no"),
}


@pytest.mark.parametrize("packing", PACKED)
def test_a_genesis_file_however_it_is_packed(site: Site, tmp_path: Path, packing: str) -> None:
    file = tmp_path / "config" / "genesis.json"
    assert fetch_genesis(site.put("/g", PACKED[packing](GENESIS)), file, tmp_path / "data")
    assert file.read_bytes() == GENESIS
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("packing", [name for name in PACKED if name != "bzip2"])
def test_what_is_cut_off_is_not_taken(site: Site, tmp_path: Path, packing: str) -> None:
    file = tmp_path / "config" / "genesis.json"
    url = site.put("/g", PACKED[packing](GENESIS))
    site.cut.add("/g")
    with pytest.raises(FetchError):
        fetch_genesis(url, file, tmp_path / "data")
    assert list(file.parent.iterdir()) == []


def test_a_genesis_file_is_fetched_until_the_chain_has_begun(site: Site, tmp_path: Path) -> None:
    file, url = tmp_path / "genesis.json", site.put("/g", GENESIS)
    file.write_text("{}")
    assert fetch_genesis(url, file, tmp_path / "data")
    blocks(tmp_path)
    file.write_text("{}")
    assert not fetch_genesis(url, file, tmp_path / "data")
    assert file.read_text() == "{}"
    file.unlink()
    assert fetch_genesis(url, file, tmp_path / "data")


def test_an_address_book_is_fetched_once(site: Site, tmp_path: Path) -> None:
    file, url = tmp_path / "addrbook.json", site.put("/a", b'{"addrs": []}')
    assert fetch_addrbook(url, file)
    file.write_text('{"addrs": ["ours"]}')
    assert not fetch_addrbook(url, file)
    assert file.read_text() == '{"addrs": ["ours"]}'


ARCHIVE = tar(
    data__application_db__000001=b"a" * 9000, **{"data__blockstore.db__CURRENT": b"b"}, wasm__x=b"w"
)


@pytest.mark.parametrize("packing", ["plain", "gzip", "lz4", "xz", "bzip2"])
def test_an_archive_of_data(site: Site, tmp_path: Path, packing: str) -> None:
    (tmp_path / "data").mkdir()
    url = site.put("/s", PACKED[packing](ARCHIVE))
    assert fetch_snapshot(url, tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "blockstore.db" / "CURRENT").read_bytes() == b"b"
    assert (tmp_path / "wasm" / "x").read_bytes() == b"w"
    assert not (tmp_path / ".restoring").exists()
    site.files.clear()
    assert not fetch_snapshot(url, tmp_path, tmp_path / "data")


def test_an_archive_that_was_cut_off_is_begun_again(site: Site, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    whole = tar(**{"data__blockstore.db__CURRENT": b"b", "data__blockstore.db__big": b"c" * 40000})
    url = site.put("/s", whole)
    site.cut.add("/s")
    with pytest.raises(FetchError):
        fetch_snapshot(url, tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "blockstore.db" / "CURRENT").exists()
    (tmp_path / "data" / "blockstore.db" / "left over").write_text("old")
    site.cut.clear()
    assert fetch_snapshot(url, tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "blockstore.db" / "big").stat().st_size == 40000
    assert not (tmp_path / "data" / "blockstore.db" / "left over").exists()


@pytest.mark.parametrize("name", ["../evil", "/evil", "data/../../evil"])
def test_nothing_is_unpacked_beside_the_folder(site: Site, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    with pytest.raises(FetchError, match="no file below"):
        fetch_snapshot(site.put("/s", tar(**{name: b"x"})), home, home / "data")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]


def test_links_are_not_unpacked(site: Site, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        link = tarfile.TarInfo("data/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    with pytest.raises(FetchError, match="no file below"):
        fetch_snapshot(site.put("/s", buffer.getvalue()), tmp_path, tmp_path / "data")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "neither JSON nor an archive"),
        (b"<html>", "neither JSON nor an archive"),
        (b"\x28\xb5\x2f\xfdzstd", "zstd"),
        (tar(readme=b"no"), r"no file \*\.json"),
        (zipped(a_json=b"{}", b_json=b"{}"), r"2 files \*\.json"),
    ],
    ids=["empty", "html", "zstd", "tar", "zip"],
)
def test_what_is_no_genesis_file_is_told_so(
    site: Site, tmp_path: Path, content: bytes, why: str
) -> None:
    with pytest.raises(FetchError, match=why):
        fetch_genesis(site.put("/g", content), tmp_path / "genesis.json", tmp_path / "data")
    assert not (tmp_path / "genesis.json").exists()


def test_an_archive_without_blocks_is_told_so(site: Site, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"no data/\*\.db"):
        fetch_snapshot(site.put("/s", tar(other=b"x")), tmp_path, tmp_path / "data")


def test_the_command(site: Site, tmp_path: Path) -> None:
    environment = {"CHAIN_HOME": str(tmp_path)}
    url = site.put("/g", GENESIS)
    done = CliRunner().invoke(node, ["fetch", "genesis", url], env=environment)
    assert (done.exit_code, done.output) == (0, "genesis: fetched\n")
    assert (tmp_path / "config" / "genesis.json").read_bytes() == GENESIS
    missing = CliRunner().invoke(node, ["fetch", "addrbook", f"{url}/no"], env=environment)
    assert missing.exit_code == 1
    assert "404" in missing.output
    for bad in ("file:///etc/passwd", "ftp://example.com/a"):
        refused = CliRunner().invoke(node, ["fetch", "addrbook", bad], env=environment)
        assert refused.exit_code == 1
        assert "only http and https" in refused.output
