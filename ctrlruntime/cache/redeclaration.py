"""Declarations of code that was loaded again: they share the informers that run, and can be undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType

from ctrlruntime.cache.informer import Informer
from ctrlruntime.cache.informer_options import Transform
from ctrlruntime.cache.store import IndexFn
from ctrlruntime.cache.uses import InformerHandle


class RestartNeeded(ValueError):
    """What is declared now cannot share the informer that runs; a new process can have it."""


class Redeclaration:
    """Puts functions of new code in the place of those that running informers have.

    An index is built again from the store. Nothing is listed: objects that are stored stay as the former
    transform made them.
    """

    def __init__(self) -> None:
        self.handles: list[InformerHandle] = []
        """What was declared."""
        self.stale: list[str] = []
        """Kinds whose stored objects are as another transform made them."""
        self._undo: list[Callable[[], object]] = []
        self._seen: set[Informer] = set()

    def replace(
        self,
        informer: Informer,
        transform: Transform | None,
        indexes: Mapping[str, IndexFn] | None,
    ) -> None:
        """Replace the functions of an informer. Raises ValueError where two of the new declarations differ."""
        if informer in self._seen:
            informer.check_transform(transform)
        else:
            self._seen.add(informer)
            self._replace_transform(informer, transform)
        for name, fn in (indexes or {}).items():
            former = informer.store.replace_index(name, fn)
            if former is not None:
                self._undo.append(partial(informer.store.replace_index, name, former))

    def _replace_transform(self, informer: Informer, transform: Transform | None) -> None:
        former = informer.replace_transform(transform)
        self._undo.append(partial(informer.replace_transform, former))
        if not _is_same(former, transform):
            self.stale.append(str(informer.gvk))

    async def undo(self) -> None:
        """Restore the functions that were replaced, and end what was declared."""
        for undo in reversed(self._undo):
            undo()
        await self.release()

    async def release(self) -> None:
        """End every use that was declared; harmless for those that ended before."""
        for handle in self.handles:
            await handle.release()


def _is_same(former: object, now: object) -> bool:
    """Whether two functions were made from the same lines, wherever these are in their file."""
    code, other = getattr(former, "__code__", None), getattr(now, "__code__", None)
    if not isinstance(code, CodeType) or not isinstance(other, CodeType):
        return former is now
    return _lines(code) == _lines(other)


def _lines(code: CodeType) -> tuple[object, ...]:
    inner = tuple(_lines(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, inner
