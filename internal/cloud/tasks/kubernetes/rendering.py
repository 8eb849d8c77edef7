"""A bundle becomes manifests: as they stand, by kustomize, or by Helm."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from apis.cloud import Bundle, HelmChart
from ctrlruntime.intake import LimitExceeded, read_body
from ctrlruntime.processes import end_process
from internal.cloud.tasks.kubernetes.documents import LIMITS, Document, collect, parse
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.task import TaskError, TaskRejected

_MANIFESTS: Final = (".yaml", ".yml", ".json")
_KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_SECONDS: Final = 300
_LONGEST: Final = 1500
_PIECE: Final = 64 * 1024
KUSTOMIZATION: Final = "the kustomization"
_PRINTED: Final = replace(LIMITS, seconds=2 * _SECONDS)
_ENVIRONMENT: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "NO_PROXY",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """What is rendered, and for whom."""

    bundle: Bundle
    values_files: Sequence[str]
    files: Mapping[str, str]
    """The bundle's files, by name."""
    release: str
    """Name of the Helm release: the instance's."""
    namespace: str
    folder: Path
    """An empty folder to work in."""
    places: Places


async def render(rendering: Rendering) -> list[Document]:
    """Return the manifests of a bundle. Raises TaskRejected for what is wrong with it."""
    bundle, places = rendering.bundle, rendering.places
    missing = [name for name in rendering.values_files if name not in rendering.files]
    if missing:
        raise TaskRejected(
            f"spec.cluster.values.valuesFiles names {missing[0]}, which no ConfigMap of the bundle has"
        )
    inline = collect(
        places.fill_data(list(bundle.manifests), keep_unknown=True), "spec.cluster.bundle.manifests"
    )
    if bundle.kustomize:
        return inline + parse(await _kustomize(rendering), KUSTOMIZATION)
    if bundle.helm is not None:
        return inline + parse(await _helm(rendering, bundle.helm), f"chart {bundle.helm.chart}")
    if rendering.values_files:
        raise TaskRejected("spec.cluster.values.valuesFiles is for bundles with kustomize or helm")
    return inline + _plain(rendering)


def _plain(rendering: Rendering) -> list[Document]:
    found: list[Document] = []
    for name in sorted(rendering.files):
        if not name.endswith(_MANIFESTS):
            raise TaskRejected(
                f"{name} in the bundle is no manifest: its name ends in none of"
                f" {', '.join(_MANIFESTS)}"
            )
        for document in parse(rendering.files[name], name):
            filled = rendering.places.fill_data(document.manifest, keep_unknown=True)
            found.append(Document(filled, document.source))
    return found


async def _kustomize(rendering: Rendering) -> str:
    base = _write_files(rendering)
    if not any(name in rendering.files for name in _KUSTOMIZATIONS):
        raise TaskRejected(f"the bundle has no {_KUSTOMIZATIONS[0]}")
    overlay = rendering.folder / "overlay"
    overlay.mkdir()
    patches = []
    for name in rendering.values_files:
        shutil.copyfile(base / name, overlay / name)
        patches.append({"path": name})
    top = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../bundle"],
        **({"patches": patches} if patches else {}),
    }
    (overlay / _KUSTOMIZATIONS[0]).write_text(yaml.safe_dump(top))
    kubectl = _program("kubectl", "spec.cluster.bundle.kustomize")
    return await _run([kubectl, "kustomize", str(overlay)], rendering.folder, KUSTOMIZATION)


async def _helm(rendering: Rendering, chart: HelmChart) -> str:
    base = _write_files(rendering)
    places = rendering.places
    helm = _program("helm", "spec.cluster.bundle.helm")
    command = [
        helm,
        "template",
        rendering.release,
        _chart(chart.chart, base),
        "--include-crds",
        "--no-hooks",
    ]
    command += ["--namespace", rendering.namespace]
    if chart.repository:
        command += ["--repo", chart.repository]
    if chart.version:
        command += ["--version", places.fill(chart.version)]
    for name in rendering.values_files:
        command += ["--values", str(base / name)]
    values = base.parent / "values.yaml"
    values.write_text(yaml.safe_dump(places.fill_data(chart.values, keep_unknown=True, typed=True)))
    command += ["--values", str(values)]
    return await _run(command, rendering.folder, f"chart {chart.chart}")


def _chart(name: str, base: Path) -> str:
    """Return a chart in the bundle by its path; any other as it is named."""
    if name.startswith("-"):
        raise TaskRejected(f"{name!r} is no name of a chart")
    if not name.startswith("./"):
        return name
    path = (base / name).resolve()
    if not path.is_relative_to(base.resolve()):
        raise TaskRejected(f"the chart {name} is not in the bundle")
    return str(path)


def _write_files(rendering: Rendering) -> Path:
    """Return the bundle's files in a folder. `__` in a key stands for `/`, which keys cannot have."""
    base = rendering.folder / "bundle"
    base.mkdir()
    for name, text in rendering.files.items():
        path = base.joinpath(*name.split("__"))
        if not path.resolve().is_relative_to(base.resolve()):
            raise TaskRejected(f"{name} leads out of the bundle")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(rendering.places.fill(text, keep_unknown=True))
    return base


def _program(name: str, field: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise TaskRejected(
            f"{field} needs the program {name} where tasks run; it is not on the PATH"
        )
    return found


async def _run(command: Sequence[str], folder: Path, what: str) -> str:
    """Return what a program prints. Raises TaskError with what it complains of, TaskRejected for more than a bundle may have."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**environment, "HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    complaint = asyncio.ensure_future(_end_of(process.stderr))
    try:
        async with asyncio.timeout(_SECONDS):
            out = await read_body(_pieces(process.stdout), _PRINTED, what)
            err = await complaint
            await process.wait()
    except TimeoutError as error:
        raise TaskError(f"{Path(command[0]).name} took longer than {_SECONDS} s") from error
    except LimitExceeded as error:
        raise TaskRejected(str(error)) from None
    finally:
        complaint.cancel()
        await end_process(process)
    if process.returncode != 0:
        said = err.decode(errors="replace").strip()[-_LONGEST:]
        raise TaskError(f"{Path(command[0]).name} {command[1]} failed: {said}")
    return out.decode(errors="replace")


async def _pieces(stream: asyncio.StreamReader | None) -> AsyncIterator[bytes]:
    while stream is not None and (piece := await stream.read(_PIECE)):
        yield piece


async def _end_of(stream: asyncio.StreamReader | None) -> bytes:
    """Return the end of what a stream has, whatever its length."""
    found = b""
    async for piece in _pieces(stream):
        found = (found + piece)[-4 * _LONGEST :]
    return found
