"""Certificates in files: replaced while they are in use, half-written, gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ctrlruntime.client.auth import FileAuth, StaticAuth
from ctrlruntime.client.certificates import CAFile, CertificateFiles
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.server.certificates import Authority


def put(folder: Path, pair: tuple[bytes, bytes]) -> tuple[Path, Path]:
    paths = folder / "tls.crt", folder / "tls.key"
    for path, data in zip(paths, pair, strict=True):
        path.write_bytes(data)
    return paths


def held(auth: StaticAuth | FileAuth) -> bytes | None:
    return auth.certificate.certificate if auth.certificate else None


def test_a_new_pair_is_used_once_both_halves_are_there(tmp_path: Path) -> None:
    authority = Authority()
    first, second = authority.issue_client("a"), authority.issue_client("a", ("team",))
    certificate, key = put(tmp_path, first)
    auth = StaticAuth(certificate=CertificateFiles(certificate, key))
    config = Config(host="https://127.0.0.1", auth=auth)
    generation = config.generation
    for half in (second[0], b"garbage"):
        certificate.write_bytes(half)
        assert held(auth) == first[0]
        assert config.generation == generation
    put(tmp_path, second)
    assert held(auth) == second[0]
    assert config.generation != generation
    certificate.unlink()
    assert held(auth) == second[0]


@pytest.mark.criterion("LV-5")
async def test_lv_5_a_renewed_file_auth_follows_the_files(tmp_path: Path) -> None:
    authority = Authority()
    first, second = authority.issue_client("a"), authority.issue_client("a", ("team",))
    token = tmp_path / "token"
    token.write_text("one")
    certificate, key = put(tmp_path, first)
    auth = FileAuth(token, certificate=CertificateFiles(certificate, key))
    certificate.write_bytes(b"garbage")
    renewed = auth.renewed()
    assert held(renewed) == first[0]
    generation = renewed.generation
    put(tmp_path, second)
    token.write_text("two")
    assert held(renewed) == second[0]
    assert renewed.generation != generation
    assert await renewed.headers() == {"Authorization": "Bearer two"}
    assert held(auth) == second[0]
    assert auth.generation != 0


def test_the_authority_is_read_again_when_a_mount_switches_its_link(tmp_path: Path) -> None:
    """As the kubelet does it: a link to a folder, replaced as a whole."""
    authorities = [Authority(), Authority()]
    for number, authority in enumerate(authorities):
        folder = tmp_path / f"..{number}"
        folder.mkdir()
        (folder / "ca.crt").write_bytes(authority.ca_data)
    (tmp_path / "..data").symlink_to("..0")
    (tmp_path / "ca.crt").symlink_to("..data/ca.crt")
    file = CAFile(tmp_path / "ca.crt")
    config = Config(host="https://127.0.0.1", ca_data=b"stale", ca_file=file)
    assert file.current == authorities[0].ca_data
    generation = config.generation
    (tmp_path / "..new").symlink_to("..1")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert config.generation != generation
    assert file.current == authorities[1].ca_data
    (tmp_path / "..1" / "ca.crt").write_bytes(b"nothing that could be trusted")
    assert file.current == authorities[1].ca_data
    shutil.rmtree(tmp_path / "..1")
    assert file.current == authorities[1].ca_data
    assert config.ssl_context() is not None
