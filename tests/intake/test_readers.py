"""Every reader of what comes from outside ends at its limits with an error of its own."""

import gzip
import io
import tarfile
from collections.abc import AsyncIterator, Callable

import pytest

from ctrlruntime.client.kubeconfig import ConfigError, Kubeconfig
from ctrlruntime.intake import (
    IntakeError,
    LimitExceeded,
    Limits,
    Malformed,
    archive_members,
    encode_json,
    inflate,
    json_depth,
    read_body,
    read_json,
    read_yaml,
    read_yaml_all,
)

LIMITS = Limits(bytes=2**20, depth=64, items=10_000, seconds=0.01)


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def bomb(width: int, *, key: str) -> str:
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, 5):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} {{{key}: [{aliases}]}}")
    return "\n".join(lines)


YAML: dict[str, tuple[bytes | str, str]] = {
    "200 KB of brackets": ("[" * 200_000, "more than 64 levels"),
    "question marks": ("? " * 100_000, "more than 64 levels"),
    "levels by indentation": ("\n".join(" " * n + "a:" for n in range(1_000)), "64 levels"),
    "aliases": (bomb(200, key="x"), "more than 10,000 values"),
    "merge keys": (bomb(2, key="<<"), "merge key (<<) (line 2)"),
    "a loop": ("a: &a [*a]", "contains it"),
    "many values": ("a: [" + "1," * 100_000 + "]", "more than 10,000 values"),
    "a long number": ("a: " + "1:" * 100_000 + "1", "very long number"),
    "a tagged long number": (f"a: !!int '{'1:' * 9_000}1'", "very long number"),
    "no such day": ("a: 2020-13-45", "cannot hold"),
    "a Python object": ("a: !!python/object:os.system x", "not YAML (line 1, column 4)"),
    "not UTF-8": (b"a: \xff\xfe", "not YAML"),
    "a lone surrogate": ("a: \ud800", "not UTF-8"),
    "large": ("#" * 2**21, "larger than 1,048,576 bytes"),
    "two documents": ("a: 1\n---\nb: 2", "has 2 YAML documents"),
}


@pytest.mark.criterion("S-F7")
@pytest.mark.parametrize("shape", YAML)
def test_hostile_yaml_ends_at_a_limit_before_it_is_composed(shape: str) -> None:
    document, fault = YAML[shape]
    with pytest.raises(IntakeError) as error:
        read_yaml(document, LIMITS, "the kubeconfig")
    assert fault in str(error.value)
    assert str(error.value).startswith("the kubeconfig ")


def test_usual_yaml_is_read_aliases_included() -> None:
    assert read_yaml("a: &x [1]\nb: *x\n'<<': 2", LIMITS) == {"a": [1], "b": [1], "<<": 2}
    assert read_yaml_all("a: 1\n---\n", LIMITS) == [{"a": 1}, None]
    assert read_yaml("", LIMITS) is None


JSON: dict[str, tuple[bytes | str, str]] = {
    "brackets": (b"[" * 2**20, "more than 64 levels"),
    "levels": (encode_json(nested(65)), "more than 64 levels"),
    "many values": (b"[" + b"1," * 10_000 + b"1]", "more than 10,000 values"),
    "not a number": (b'{"a":NaN}', "not JSON"),
    "a huge number": (b"1e400", "not JSON"),
    "not UTF-8": (b'"\xff"', "not JSON"),
    "a lone surrogate": ("\ud800", "not UTF-8"),
    "large": (b" " * 2**21, "larger than 1,048,576 bytes"),
}


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("shape", JSON)
def test_hostile_json_ends_at_a_limit_before_it_is_decoded(shape: str) -> None:
    document, fault = JSON[shape]
    with pytest.raises(IntakeError, match=fault):
        read_json(document, LIMITS)


@pytest.mark.parametrize("levels", [0, 1, 63, 64])
def test_a_document_within_the_limits_is_read(levels: int) -> None:
    document = encode_json(nested(levels))
    assert json_depth(document) == levels
    assert read_json(document, LIMITS) == nested(levels)
    assert json_depth(b'[[{"a":"]]]["}]]') == 3


def test_a_value_too_deep_for_json_is_an_error_of_its_own() -> None:
    loop: list[object] = []
    loop.append(loop)
    for value in (nested(300), nested(100_000), loop):
        with pytest.raises(LimitExceeded, match="200 levels deep: remove levels"):
            encode_json(value)
    with pytest.raises(Malformed, match="set"):
        encode_json({"a": {1}})


def archive(*sizes: int) -> tarfile.TarFile:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for index, size in enumerate(sizes):
            info = tarfile.TarInfo(str(index))
            info.size = size
            tar.addfile(info, io.BytesIO(b"0" * size))
    file.seek(0)
    return tarfile.open(fileobj=file)


SMALL = Limits(bytes=10, items=2, seconds=0.01)


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (lambda: inflate(gzip.compress(b"0" * 2**24), LIMITS), "bytes"),
        (lambda: list(archive_members(archive(1, 1, 1), SMALL)), "items"),
        (lambda: list(archive_members(archive(9, 9), SMALL)), "bytes"),
    ],
)
def test_compressed_streams_and_archives_end_at_their_limits(
    read: Callable[[], object], limit: str
) -> None:
    with pytest.raises(LimitExceeded) as error:
        read()
    assert error.value.limit == limit


def test_a_compressed_stream_that_is_cut_off_is_malformed() -> None:
    whole = gzip.compress(b"0" * 2**18)
    assert inflate(whole, LIMITS) == b"0" * 2**18
    for broken in (whole[:-9], b"no gzip", b""):
        with pytest.raises(Malformed):
            inflate(broken, LIMITS)


async def endless(chunk: bytes) -> AsyncIterator[bytes]:
    import asyncio

    while True:
        yield chunk
        await asyncio.sleep(0)


@pytest.mark.parametrize(("chunk", "limit"), [(b"0" * 9, "bytes"), (b"", "seconds")])
async def test_an_endless_body_ends_at_a_limit(chunk: bytes, limit: str) -> None:
    with pytest.raises(LimitExceeded) as error:
        await read_body(endless(chunk), SMALL)
    assert error.value.limit == limit


@pytest.mark.criterion("S-F7")
@pytest.mark.parametrize("shape", YAML)
def test_a_hostile_kubeconfig_is_an_error_of_its_own_that_shows_none_of_it(shape: str) -> None:
    document, _ = YAML[shape]
    content = document.encode(errors="surrogatepass") if isinstance(document, str) else document
    with pytest.raises(ConfigError) as error:
        Kubeconfig.parse(content, "Secret a/b")
    assert str(error.value).startswith("the kubeconfig of Secret a/b ")
    assert len(str(error.value)) < 150
