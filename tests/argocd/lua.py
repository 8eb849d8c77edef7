"""Runs scripts as Argo CD does: Lua 5.1, `obj` as a global, no libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from lupa import lua51

from ctrlruntime.json import Json

_WITHOUT_LIBRARIES: Final = """
for _, name in ipairs({
    "string", "io", "os", "math", "table", "package", "debug", "coroutine", "require", "module",
    "dofile", "loadfile", "load", "loadstring", "python",
}) do
  _G[name] = nil
end
getmetatable("").__index = nil
"""


def evaluate(script: str, obj: dict[str, Any]) -> Json:
    """What the script returns for a manifest, tables as dicts and lists."""
    runtime = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    runtime.execute(_WITHOUT_LIBRARIES)
    runtime.globals()["obj"] = _to_lua(runtime, obj)
    return _to_python(runtime.execute(script))


def _to_lua(runtime: lua51.LuaRuntime, value: object) -> object:
    if isinstance(value, dict):
        return runtime.table_from({k: _to_lua(runtime, v) for k, v in value.items()})
    if isinstance(value, list):
        return runtime.table_from([_to_lua(runtime, each) for each in value])
    return value


class LuaTable(Protocol):
    """A table: its keys, and the value of each."""

    def __iter__(self) -> Iterator[str | int]: ...
    def __getitem__(self, key: str | int) -> LuaTable | str | float | None: ...


def _to_python(value: LuaTable | str | float | None) -> Json:
    if isinstance(value, str | float) or value is None or lua51.lua_type(value) != "table":
        return value
    keys = list(value)
    if keys and all(isinstance(key, int) for key in keys):
        return [_to_python(value[key]) for key in sorted(keys)]
    return {key: _to_python(value[key]) for key in keys}
