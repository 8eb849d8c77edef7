"""The modules of a project: imported, watched, and imported again."""

from __future__ import annotations

import importlib
import linecache
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from prometheus_client import REGISTRY

from ctrlruntime.generate.folder import importable

SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
"""Folders that hold no code of the project, as do those that begin with a dot, and virtual environments."""
_NEVER_OWN: Final = frozenset({"__main__", "ctrlruntime"})
"""Packages that are not loaded again, wherever they are."""

Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""


class ProjectError(Exception):
    """The project cannot be loaded: what is wrong, and where."""


class Project:
    """The code in a folder, of which a function adds controllers to a manager."""

    def __init__(self, folder: Path, setup: str) -> None:
        """Raise ProjectError for a `setup` that is not "module:function"."""
        module, colon, function = setup.partition(":")
        if not (module and colon and function):
            raise ProjectError(
                f"--setup {setup}: name the module and its function, as in --setup website:setup"
            )
        self.folder = folder.resolve()
        self._module, self._function = module, function
        self._loaded = False
        self._files: dict[Path, Stamp | None] = {}
        """What is watched, as it was loaded: the modules, or all files where the last load failed."""
        self._modules = 0
        """The number of loaded modules when these were looked for."""
        self._owned: dict[str, bool] = {}
        """Whether each file of a module is code of the project, by its name as Python has it."""
        self._collectors: set[Any] = set()
        """What the modules registered with prometheus_client, which takes each name once."""
        importable(self.folder)

    def load(self) -> Callable[..., object]:
        """Import the modules anew and return the function. Raises ProjectError, and the former modules stay."""
        self.failed()
        former = self._remove_modules()
        bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        others = set(REGISTRY._collector_to_names) - self._collectors
        _unregister(self._collectors)
        importlib.invalidate_caches()
        linecache.checkcache()
        try:
            found = self._import()
        except BaseException:
            self._remove_modules()
            sys.modules.update(former)
            _unregister(set(REGISTRY._collector_to_names) - others)
            for each in self._collectors:
                REGISTRY.register(each)
            raise
        finally:
            sys.dont_write_bytecode = bytecode
        self._collectors = set(REGISTRY._collector_to_names) - others
        return found

    def failed(self) -> None:
        """Watch every file of the folder: what was loaded does not work."""
        self._loaded = False
        self._files = {path: _stamp(path) for path in _python_files(self.folder)}

    def succeeded(self) -> None:
        """Watch the files of the modules alone."""
        self._loaded = True
        self._modules = 0
        before, self._files = self._files, {}
        self._find_files(before)

    def changed(self) -> list[str]:
        """Return the files that were changed since the last load, relative to the folder."""
        if self._loaded:
            self._find_files({})
            files = list(self._files.items())  # of one moment: a thread may be the caller
            found = [path for path, stamp in files if _stamp(path) != stamp]
        else:
            now = {path: _stamp(path) for path in _python_files(self.folder)}
            found = [path for path, _ in set(now.items()) ^ set(self._files.items())]
        return sorted({str(path.relative_to(self.folder)) for path in found})

    def _find_files(self, before: Mapping[Path, Stamp | None]) -> None:
        """Watch the files of modules that were imported since the last look. `before`: stamps of before the load."""
        if len(sys.modules) == self._modules:
            return
        self._modules = len(sys.modules)
        for module in self.modules():
            path = Path(str(module.__file__)).resolve()
            self._files.setdefault(path, before.get(path) or _stamp(path))

    def modules(self) -> list[ModuleType]:
        """Return the modules of the project that are loaded."""
        return [module for _, module in self._own()]

    def _import(self) -> Callable[..., object]:
        try:
            module = importlib.import_module(self._module)
        except (Exception, SystemExit) as error:
            raise ProjectError(self._explain(error)) from error
        found = getattr(module, self._function, None)
        if not callable(found):
            raise ProjectError(
                f"{module.__file__} has no function {self._function}: write "
                f"`def {self._function}(manager: Manager) -> None`, which adds the controllers"
            )
        return found  # type: ignore[no-any-return]

    def _explain(self, error: BaseException) -> str:
        """Return the error with its places in the project."""
        if isinstance(error, ModuleNotFoundError) and error.name == self._module.partition(".")[0]:
            return (
                f"there is no module {self._module} in {self.folder}: run the command in the folder of the "
                "project, or name another with --setup MODULE:FUNCTION"
            )
        return explain(error, self.folder)

    def _own(self) -> Iterator[tuple[str, ModuleType]]:
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and name.partition(".")[0] not in _NEVER_OWN and self._is_own(file):
                yield name, module

    def _is_own(self, file: str) -> bool:
        """Whether a file is the project's. Two thousand modules are looked at with each load, and few of them are new."""
        if (own := self._owned.get(file)) is None:
            own = self._owned[file] = is_in_project(self.folder, Path(file).resolve())
        return own

    def _remove_modules(self) -> dict[str, ModuleType]:
        own = dict(self._own())
        for name in own:
            del sys.modules[name]
        return own


def is_in_project(folder: Path, file: Path | str) -> bool:
    """Whether a file is code of the project in a folder: below it, and in no folder that is skipped."""
    path = Path(file)
    if not path.is_relative_to(folder):
        return False
    below = path.relative_to(folder).parts[:-1]
    return not any(_is_skipped(folder.joinpath(*below[: n + 1])) for n in range(len(below)))


def explain(error: BaseException, folder: Path) -> str:
    """Return an error and the lines of the folder's code that led to it."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if is_in_project(folder, frame.filename)
    ]
    lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()


def _python_files(folder: Path) -> Iterator[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return
    for path in found:
        if path.is_dir() and not path.is_symlink():
            if not _is_skipped(path):
                yield from _python_files(path)
        elif path.suffix == ".py":
            yield path


def _is_skipped(folder: Path) -> bool:
    name = folder.name
    return name in SKIPPED or name.startswith(".") or (folder / "pyvenv.cfg").exists()


def _unregister(collectors: Iterable[Any]) -> None:
    for each in collectors:
        REGISTRY.unregister(each)


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
