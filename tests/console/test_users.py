"""Who may see the console's pages: tokens, cookies, proxies, and rights as the API server has them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
import yaml
from multidict import CIMultiDict
from yarl import URL

from apis.cloud import Instance
from apis.tenancy import Tenant
from manager.console.options import ConsoleOptions, ConsoleOptionsError
from manager.console.pages import PAGES
from manager.console.users import COOKIE
from tests.console.harness import (
    ADMIN,
    RBAC,
    STRANGER,
    TEAM,
    TENANT,
    Harness,
    ready,
    running,
)
from tests.docs.blocks import blocks

LOCAL = ConsoleOptions(bind_address="127.0.0.1:0")
PROXIED = ConsoleOptions(bind_address="127.0.0.1:0", trusted_proxies=(ip_network("127.0.0.0/8"),))


@pytest.fixture
async def console() -> AsyncIterator[Harness]:
    async with running(LOCAL) as harness:
        await harness.put(Tenant, "theirs", TENANT, ready(False, "Broken", "theirs-message"))
        await harness.put(Tenant, "of-team", TENANT, ready(False, "Broken"), namespace="team")
        yield harness


def paths() -> list[str]:
    """Every page, and its stream."""
    filled = [
        page.path.replace("{plural}", _plural(page.path))
        .replace("{namespace}", "default")
        .replace("{name}", "theirs")
        for page in PAGES
    ]
    return [*filled, *(f"/live{path}" for path in filled)]


def _plural(path: str) -> str:
    return {"runs": "instanceterraforms", "rollouts": "fleetrollouts"}.get(
        path.split("/")[1], "tenants"
    )


@pytest.mark.criterion("FAULT-B36")
async def test_without_a_token_no_page_and_no_stream_is_answered(console: Harness) -> None:
    for path in paths():
        for headers in ({}, {"Authorization": "Bearer who-is-this"}, {"X-Remote-User": "admin"}):
            status, text = await console.get(path, None, headers)
            assert (status, "theirs" in text.replace(path, "")) == (401, False), path


async def test_a_user_without_rights_sees_no_page_and_no_stream(console: Harness) -> None:
    for path in paths():
        status, text = await console.get(path, STRANGER)
        assert status == 403, path
        assert "theirs-message" not in text


async def test_a_user_of_one_namespace_sees_only_that(console: Harness) -> None:
    for path in ("/", "/failures", "/objects/tenants"):
        text = await console.page(f"{path}?namespace=team", TEAM)
        assert "theirs" not in text
        assert (await console.get(path, TEAM))[0] == 403
        assert (await console.get(f"{path}?namespace=default", TEAM))[0] == 403
    assert "of-team" in await console.page("/failures?namespace=team", TEAM)
    assert "of-team" in await console.page("/tenants/team/of-team", TEAM)
    for path in ("/tenants/default/theirs", "/tenants/default/none", "/queues", "/data-planes"):
        assert (await console.get(path, TEAM))[0] == 403


async def test_the_role_of_the_document_shows_every_page(console: Harness) -> None:
    *_, block = blocks("docs/console.md")
    role = yaml.safe_load(block.text)
    await console.client.create(role)
    subject = {"kind": "User", "name": STRANGER.name, "apiGroup": RBAC}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "console-reader"},
        "subjects": [subject],
        "roleRef": {"kind": "ClusterRole", "name": role["metadata"]["name"], "apiGroup": RBAC},
    }
    await console.client.create(binding)
    for page in PAGES:
        if "{name}" not in page.path:
            await console.page(page.path.replace("{plural}", "tenants"), STRANGER)
    assert (await console.get("/tenants/default/theirs", STRANGER))[0] == 200


async def test_rights_are_those_of_a_real_server(request: pytest.FixtureRequest) -> None:
    async with running(LOCAL, server=request.getfixturevalue("real_server")) as console:
        await console.put(Tenant, "theirs", TENANT, ready(False))
        await console.put(Tenant, "of-team", TENANT, ready(False), namespace="team")
        path = "/failures?namespace=team"
        assert "of-team" in await console.page(path, TEAM)
        assert "theirs" in await console.page("/failures")
        for other, user, status in (
            *(("/failures", TEAM, 403), ("/queues", TEAM, 403), (path, STRANGER, 403)),
            *(("/tenants/default/theirs", TEAM, 403), ("/tenants/team/of-team", TEAM, 200)),
            (path, None, 401),
        ):
            assert (await console.get(other, user))[0] == status, (other, user)
        await console.client.delete(Tenant, "theirs", namespace="default")


async def test_kinds_that_a_user_may_not_list_are_left_out_and_named(console: Harness) -> None:
    await console.put(
        Instance,
        "secret-instance",
        {"version": "1"},
        {"phase": "Failed"},
        namespace="team",
    )
    role = await console.client.get("rbac.authorization.k8s.io/v1/Role", "team", namespace="team")
    role["rules"][0]["resources"] = ["tenants"]
    await console.client.update(role)
    text = await console.page("/failures?namespace=team", TEAM)
    assert "of-team" in text
    assert "secret-instance" not in text
    assert "You may not list here" in text
    assert "instances" in text


async def test_a_token_is_taken_once_and_kept_in_a_cookie_that_scripts_cannot_read(
    console: Harness,
) -> None:
    form = {"token": ADMIN.token, "next": "/failures"}
    async with console.http.post(
        console.url("/sign-in"), data=form, allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/failures")
        cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "theirs" in await console.page("/failures", None)
    async with console.http.post(console.url("/sign-out"), allow_redirects=False) as answer:
        assert answer.status == 303
    assert COOKIE not in console.http.cookie_jar.filter_cookies(URL(console.url("/")))
    assert (await console.get("/failures", None))[0] == 401


@pytest.mark.parametrize(
    "target", ["https://evil.example.com/", "//evil.example.com", "/\\evil.example.com", "x"]
)
async def test_a_sign_in_leads_to_this_server_only(console: Harness, target: str) -> None:
    form = {"token": ADMIN.token, "next": target}
    async with console.http.post(
        console.url("/sign-in"), data=form, allow_redirects=False
    ) as answer:
        assert answer.headers["Location"] == "/"


async def test_a_form_of_another_site_and_a_bad_token_open_no_session(console: Harness) -> None:
    for form, headers, status in (
        ({"token": ADMIN.token}, {"Sec-Fetch-Site": "cross-site"}, 403),
        ({"token": "who-is-this"}, {}, 401),
        ({"token": ""}, {}, 401),
        ({"token": "x" * 5000}, {}, 401),
        ({"token": "x" * 9000}, {}, 401),
    ):
        async with console.http.post(
            console.url("/sign-in"), data=form, headers=headers, allow_redirects=False
        ) as answer:
            assert answer.status == status
            assert "Set-Cookie" not in answer.headers


async def test_a_trusted_proxy_names_the_user_and_nothing_reserved() -> None:
    async with running(PROXIED) as console:
        await console.put(Tenant, "of-team", TENANT, ready(False), namespace="team")
        team, path = {"X-Remote-User": TEAM.name}, "/failures?namespace=team"
        assert (await console.get(path, None, team))[0] == 200
        assert (await console.get("/failures", None, team))[0] == 403
        reserved = {"X-Remote-User": "eve", "X-Remote-Group": "staff, system:masters"}
        for headers in (reserved, {"X-Remote-User": "system:admin"}, {"X-Remote-User": " "}):
            assert (await console.get(path, None, headers))[0] == 401
        twice = CIMultiDict([("X-Remote-User", ADMIN.name), ("X-Remote-User", TEAM.name)])
        async with console.http.get(console.url(path), headers=twice) as answer:
            assert (answer.status, "named twice" in await answer.text()) == (401, True)
        assert (await console.get(path, ADMIN))[0] == 200


def test_a_console_that_would_take_tokens_in_clear_is_refused() -> None:
    for address in ("0.0.0.0:8090", ":8090", "10.0.0.7:8090", "[::]:8090"):
        with pytest.raises(ConsoleOptionsError, match="--console-secure"):
            ConsoleOptions(bind_address=address).check()
        ConsoleOptions(bind_address=address, secure=True).check()
        ConsoleOptions(bind_address=address, trusted_proxies=(ip_network("10.0.0.0/8"),)).check()
    for address in ("0", "127.0.0.1:8090", "[::1]:8090", "localhost:8090"):
        ConsoleOptions(bind_address=address).check()


async def test_over_https_the_cookie_is_sent_over_https_only() -> None:
    async with running(ConsoleOptions(bind_address="127.0.0.1:0", secure=True)) as console:
        async with console.http.post(
            console.url("/sign-in"), data={"token": ADMIN.token}, allow_redirects=False
        ) as answer:
            assert answer.status == 303
            assert "Secure" in answer.headers["Set-Cookie"]
        assert "Failures" in await console.page("/", None)
