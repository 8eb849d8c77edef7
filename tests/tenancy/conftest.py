"""Fixtures of the tenancy tests: a private database, a renderer, registries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from internal.tenancy.rendering import Renderer
from tests.mariadb import MariaDB


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB.start() as database:
        yield database


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    made = Renderer()
    yield made
    await made.close()
