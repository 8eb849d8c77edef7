"""What a node begins with is fetched, whole or not at all, and only where it is missing."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import lz4.frame
import pytest
from backports import zstd
from click.testing import CliRunner

from internal.cosmos.sidecar.fetch import (
    FetchError,
    Source,
    default_limit,
    fetch_addrbook,
    fetch_genesis,
    fetch_snapshot,
)
from manager.commands.node import node

LIMIT = 1 << 20
"""Bytes that a download may have."""
GENESIS = b'{"chain_id": "test-1", "padding": "' + b"x" * 5000 + b'"}'


class Site:
    """A web server with files; those in `cut` end in their middle."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.moved: dict[str, str] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path in site.moved:
                    self.send_response(302)
                    self.send_header("Location", site.moved[self.path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                content = site.files.get(self.path)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                whole = content or b""
                self.wfile.write(whole[: len(whole) // 2] if self.path in site.cut else whole)

            def log_message(self, *_args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, _request: object, _client: object) -> None:
                """Clients that have read enough hang up."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def put(self, path: str, content: bytes) -> Source:
        self.files[path] = content
        return Source(self.url(path), LIMIT)

    def url(self, path: str) -> str:
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
    "zstd": zstd.compress,
    "tar": lambda content: tar(readme=b"no", genesis_json=content),
    "tar.gz": lambda content: gzip.compress(tar(genesis_json=content)),
    "tar.lz4": lambda content: lz4.frame.compress(tar(genesis_json=content)),
    "tar.zst": lambda content: zstd.compress(tar(genesis_json=content)),
    "zip": lambda content: zipped(genesis_json=content, readme=b"no"),
}


@pytest.mark.criterion("COSMOS-A8-3")
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


@pytest.mark.criterion("COSMOS-A8-3")
def test_an_address_book_is_fetched_once(site: Site, tmp_path: Path) -> None:
    file, url = tmp_path / "addrbook.json", site.put("/a", b'{"addrs": []}')
    assert fetch_addrbook(url, file)
    file.write_text('{"addrs": ["ours"]}')
    assert not fetch_addrbook(url, file)
    assert file.read_text() == '{"addrs": ["ours"]}'


ARCHIVE = tar(
    data__application_db__000001=b"a" * 9000, **{"data__blockstore.db__CURRENT": b"b"}, wasm__x=b"w"
)


@pytest.mark.parametrize("packing", ["plain", "gzip", "lz4", "xz", "bzip2", "zstd"])
def test_an_archive_of_data(site: Site, tmp_path: Path, packing: str) -> None:
    (tmp_path / "data").mkdir()
    url = site.put("/s", PACKED[packing](ARCHIVE))
    assert fetch_snapshot(url, tmp_path, tmp_path / "data")
    assert (tmp_path / "data" / "blockstore.db" / "CURRENT").read_bytes() == b"b"
    assert (tmp_path / "wasm" / "x").read_bytes() == b"w"
    assert not (tmp_path / ".restoring").exists()
    site.files.clear()
    assert not fetch_snapshot(url, tmp_path, tmp_path / "data")


@pytest.mark.criterion("COSMOS-A8-3")
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
        (b"\x28\xb5\x2f\xfdzstd", "cannot be read"),
        (b'{"chain_id": "a"', "no such JSON"),
        (b'{"chain_id": "a"} {}', "no such JSON"),
        (b'{"result": {"genesis": {}}}', "chain_id"),
        (tar(readme=b"no"), r"no file \*\.json"),
        (zipped(a_json=b"{}", b_json=b"{}"), r"2 files \*\.json"),
    ],
    ids=["empty", "html", "zstd", "cut", "two", "wrapped", "tar", "zip"],
)
def test_what_is_no_genesis_file_is_reported(
    site: Site, tmp_path: Path, content: bytes, why: str
) -> None:
    with pytest.raises(FetchError, match=why):
        fetch_genesis(site.put("/g", content), tmp_path / "genesis.json", tmp_path / "data")
    assert not (tmp_path / "genesis.json").exists()


def test_an_archive_without_blocks_is_reported(site: Site, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"no data/\*\.db"):
        fetch_snapshot(site.put("/s", tar(other=b"x")), tmp_path, tmp_path / "data")


def test_the_command(site: Site, tmp_path: Path) -> None:
    environment = {"CHAIN_HOME": str(tmp_path)}
    url = site.put("/g", GENESIS).url
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


def archive_of(*members: tuple[str, bytes, bytes]) -> bytes:
    """A tar of name, type and content (or target, of a link)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content.decode()
                archive.addfile(info)
    return buffer.getvalue()


BLOCKS = ("data/blockstore.db/CURRENT", tarfile.REGTYPE, b"b")


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("name", ["priv_validator_key", "priv_validator_state", "node_key"])
def test_files_of_another_node_are_not_written_wherever_an_archive_has_them(
    site: Site, tmp_path: Path, name: str
) -> None:
    own = tmp_path / "data" / f"{name}.json"
    own.parent.mkdir()
    own.write_text("mine")
    content = archive_of((f"./data/{name}.json", tarfile.REGTYPE, b"theirs"), BLOCKS)
    assert fetch_snapshot(site.put("/s", content), tmp_path, tmp_path / "data")
    assert own.read_text() == "mine"


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize(
    "name",
    ["config/priv_validator_key.json", "./config/node_key.json", "genesis.json", ".restoring"],
)
def test_h_d3_only_data_and_wasm_of_an_archive_are_written(
    site: Site, tmp_path: Path, name: str
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "data").mkdir()
    key = tmp_path / "config" / "priv_validator_key.json"
    key.write_text("mine")
    content = archive_of(
        (name, tarfile.REGTYPE, b"theirs" * 5000),
        ("keyring-test", tarfile.DIRTYPE, b""),
        ("./data", tarfile.DIRTYPE, b""),
        BLOCKS,
        ("./wasm/wasm/state", tarfile.REGTYPE, b"w"),
    )
    assert fetch_snapshot(site.put("/s", content), tmp_path, tmp_path / "data")
    assert key.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "data", "wasm"]
    assert list((tmp_path / "config").iterdir()) == [key]
    assert (tmp_path / "data/blockstore.db/CURRENT").read_bytes() == b"b"


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
@pytest.mark.parametrize("name", ["data/a", "other/a", "../a"])
def test_h_d3_links_and_devices_are_refused_wherever_they_are(
    site: Site, tmp_path: Path, name: str, kind: bytes
) -> None:
    content = archive_of((name, kind, b"/etc/passwd"), BLOCKS)
    with pytest.raises(FetchError, match="no file below"):
        fetch_snapshot(site.put("/s", content), tmp_path, tmp_path / "data")
    assert (tmp_path / ".restoring").exists(), "the next start begins again"


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize(
    "target", ["ftp://example.com/a", "file:///etc/passwd", "data:,x", "gopher://example.com/"]
)
def test_h_d3_a_redirect_to_another_scheme_is_refused(
    site: Site, tmp_path: Path, target: str
) -> None:
    site.moved["/moved"] = target
    with pytest.raises(FetchError, match=r"HTTP status 302|only http and https"):
        fetch_addrbook(Source(site.url("/moved"), LIMIT), tmp_path / "addrbook.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.criterion("H-D3")
def test_h_d3_a_redirect_to_http_is_followed(site: Site, tmp_path: Path) -> None:
    site.put("/a", b'{"addrs": []}')
    site.moved["/moved"] = site.url("/a")
    assert fetch_addrbook(Source(site.url("/moved"), LIMIT), tmp_path / "addrbook.json")


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize("packing", ["plain", "gzip", "lz4", "xz", "bzip2", "zstd"])
def test_h_d3_a_small_archive_does_not_become_a_large_disk(
    site: Site, tmp_path: Path, packing: str
) -> None:
    """The limit holds for the download and for what comes out of it."""
    (tmp_path / "data").mkdir()
    bomb = tar(
        **{"data__blockstore.db__CURRENT": b"b", "data__application.db__big": bytes(8 * LIMIT)}
    )
    url = site.put("/s", PACKED[packing](bomb))
    with pytest.raises(FetchError, match="maxDownloadSize"):
        fetch_snapshot(url, tmp_path, tmp_path / "data")
    written = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert written <= LIMIT


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd", "tar.gz", "zip"])
def test_h_d3_a_genesis_file_has_a_limit_too(site: Site, tmp_path: Path, packing: str) -> None:
    large = b'{"chain_id": "a", "x": "' + b"x" * 2 * LIMIT + b'"}'
    with pytest.raises(FetchError, match="maxDownloadSize"):
        fetch_genesis(
            site.put("/g", PACKED[packing](large)), tmp_path / "genesis.json", tmp_path / "data"
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.criterion("H-D3")
def test_h_d3_headers_without_end_are_refused(site: Site, tmp_path: Path) -> None:
    """A header is held in memory: it has a limit far below that of the archive."""
    info = tarfile.TarInfo("data/x")
    info.pax_headers = {"comment": "x" * (3 << 20)}
    content = info.tobuf(tarfile.PAX_FORMAT) + bytes(1024)
    with pytest.raises(FetchError, match="header that is longer"):
        fetch_snapshot(
            Source(site.put("/s", gzip.compress(content)).url, 64 << 20),
            tmp_path,
            tmp_path / "data",
        )


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize("right", [True, False])
def test_h_d3_a_checksum_is_of_the_file_as_it_is_served(
    site: Site, tmp_path: Path, right: bool
) -> None:
    served = {"genesis": gzip.compress(GENESIS), "snapshot": zstd.compress(ARCHIVE) + bytes(0)}
    (tmp_path / "data").mkdir()
    sums = {what: hashlib.sha256(content).hexdigest() for what, content in served.items()}
    if not right:
        sums = dict.fromkeys(sums, "0" * 64)
    genesis = Source(site.put("/g", served["genesis"]).url, LIMIT, sums["genesis"].upper())
    snapshot = Source(site.put("/s", served["snapshot"]).url, LIMIT, sums["snapshot"])
    file = tmp_path / "config" / "genesis.json"
    if right:
        assert fetch_genesis(genesis, file, tmp_path / "data")
        assert fetch_snapshot(snapshot, tmp_path, tmp_path / "data")
        return
    with pytest.raises(FetchError, match="SHA-256"):
        fetch_genesis(genesis, file, tmp_path / "data")
    assert list(file.parent.iterdir()) == []
    with pytest.raises(FetchError, match="SHA-256"):
        fetch_snapshot(snapshot, tmp_path, tmp_path / "data")
    assert (tmp_path / ".restoring").exists(), "the node does not start with it"


@pytest.mark.criterion("H-D3")
def test_h_d3_an_address_book_is_json_or_is_not_taken(site: Site, tmp_path: Path) -> None:
    for content in (b'{"addrs": [}', b'{"addrs": []', b"[]"):
        with pytest.raises(FetchError):
            fetch_addrbook(site.put("/a", content), tmp_path / "addrbook.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.criterion("H-D3")
def test_h_d3_messages_carry_no_password_and_no_query(site: Site, tmp_path: Path) -> None:
    source = Source("http://user:hunter2@127.0.0.1:1/a?token=hunter3", LIMIT)
    with pytest.raises(FetchError) as failed:
        fetch_addrbook(source, tmp_path / "addrbook.json")
    assert "hunter" not in str(failed.value)


@pytest.mark.criterion("H-D3")
def test_h_d3_the_default_limit_is_twice_the_disk(site: Site, tmp_path: Path) -> None:
    assert default_limit(tmp_path) == 2 * shutil.disk_usage(tmp_path).total
    url = site.put("/g", GENESIS).url
    environment = {"CHAIN_HOME": str(tmp_path)}
    small = CliRunner().invoke(node, ["fetch", "genesis", url, "--max-bytes=99"], env=environment)
    assert small.exit_code == 1
    assert "maxDownloadSize" in small.output
    wrong = CliRunner().invoke(
        node, ["fetch", "genesis", url, f"--sha256={'0' * 64}"], env=environment
    )
    assert wrong.exit_code == 1
    assert "SHA-256" in wrong.output
