"""With webhooks that the API server really calls."""

import pytest
from guestbook import CONFIG_MAP, GuestBook, OldGuestBook, setup

from ctrlruntime import GroupVersionKind, Invalid, Manager, ManagerOptions
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually
from ctrlruntime.envtest.local_webhooks import LocalWebhooks

V1 = GroupVersionKind("books.example.com", "v1", "GuestBook")


def book(version, **spec):
    metadata = {"name": "summer", "namespace": "default"}
    api_version = f"books.example.com/{version}"
    return {"apiVersion": api_version, "kind": "GuestBook", "metadata": metadata, "spec": spec}


@pytest.fixture
async def books(envtest_options):
    """Run the operator, and return a client."""
    async with Environment(**envtest_options) as env, LocalWebhooks(env) as hooks:
        await env.install_crds(hooks.definition(GuestBook, OldGuestBook))
        await hooks.install(GuestBook)
        options = ManagerOptions(
            webhook=hooks.options, metrics_bind_address="0", health_bind_address="0"
        )
        manager = Manager(env.config(), options)
        setup(manager)
        async with manager.running():
            yield env.client()


async def test_defaults_are_filled_in_and_pages_are_made(books):
    made = await books.create(book("v2", title="Summer", size={"pages": 2}))
    assert made["spec"]["size"] == {"pages": 2, "lines": 20}
    await eventually(
        books, CONFIG_MAP, "summer", {"data": {"title": "Summer"}}, namespace="default"
    )


async def test_a_book_that_is_too_large_is_refused_with_its_field(books):
    with pytest.raises(Invalid) as refused:
        await books.create(book("v2", title="Summer", size={"pages": 300}))
    assert [cause.field for cause in refused.value.causes] == ["spec.size"]


async def test_the_old_version_is_still_served(books):
    await books.create(book("v2", title="Summer", size={"pages": 3}))
    found = await books.get(V1, "summer", namespace="default")
    assert found["spec"] == {"headline": "Summer/3"}
