"""Signing in: the browser gets a session id, never the token, and only the console's own pages change anything."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from manager.console.options import ConsoleOptions
from manager.console.users import COOKIE, MOST, MOST_EACH, SECONDS, Sessions
from tests.console.harness import ADMIN, Harness, running

pytestmark = pytest.mark.criterion("S-F18")

FORMS = ("/sign-in", "/sign-out")


@pytest.fixture
async def console() -> AsyncIterator[Harness]:
    async with running(ConsoleOptions(bind_address="127.0.0.1:0")) as harness:
        yield harness


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("multipart/form-data", b"--x", 415),
        ("multipart/form-data; boundary=x", b"--" + b"x\r\n" * 100, 415),
        ("application/x-www-form-urlencoded; charset=utf-99", b"token=a", 400),
        ("application/x-www-form-urlencoded; charset=rot13", b"token=a", 400),
        ("application/x-www-form-urlencoded; charset=ascii", b"token=\xff", 400),
    ],
)
async def test_a_form_that_cannot_be_read_is_the_senders_error(
    console: Harness, content_type: str, body: bytes, status: int
) -> None:
    """Whoever reaches the port could write tracebacks into the manager's log."""
    headers = {"Content-Type": content_type, "Origin": own(console)}
    async with console.http.post(console.url("/sign-in"), data=body, headers=headers) as answer:
        assert answer.status == status
        assert "Content-Security-Policy" in answer.headers


async def post(console: Harness, path: str, **headers: str) -> tuple[int, str]:
    """Send a form with these headers alone; return the status, and what the browser would keep."""
    async with (
        aiohttp.ClientSession() as http,
        http.post(
            console.url(path),
            data={"token": ADMIN.token},
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            allow_redirects=False,
        ) as answer,
    ):
        cookie = answer.cookies.get(COOKIE)
        assert ADMIN.token not in f"{answer.headers} {await answer.text()}"
        return answer.status, cookie.value if cookie is not None else ""


async def status_of(console: Harness, session: str) -> int:
    return (await console.get("/", None, {"Cookie": f"{COOKIE}={session}"}))[0]


def own(console: Harness) -> str:
    return console.url("").rstrip("/")


async def test_what_another_program_on_the_host_receives_is_no_token_and_ends_with_the_session(
    console: Harness,
) -> None:
    first, second = [(await post(console, "/sign-in", Origin=own(console)))[1] for _ in range(2)]
    assert first != second
    assert len(first) >= 43, "256 bits"
    assert await status_of(console, first) == 200
    as_token = await console.get("/", None, {"Authorization": f"Bearer {first}"})
    assert as_token[0] == 401, "only the console takes it"
    status, _ = await post(console, "/sign-out", Origin=own(console), Cookie=f"{COOKIE}={first}")
    assert status == 303
    assert [await status_of(console, each) for each in (first, second, ADMIN.token)] == [
        401,
        200,
        401,
    ]


async def test_signing_in_again_ends_the_session_before(console: Harness) -> None:
    _, first = await post(console, "/sign-in", Origin=own(console))
    _, second = await post(console, "/sign-in", Origin=own(console), Cookie=f"{COOKIE}={first}")
    assert [await status_of(console, each) for each in (first, second)] == [401, 200]


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({}, False),
        ({"Sec_Fetch_Site": "none"}, False),
        ({"Sec_Fetch_Site": "same-site"}, False),
        ({"Sec_Fetch_Site": "cross-site"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": ""}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({"Origin": "http://evil.example.com", "Sec_Fetch_Site": "same-origin"}, False),
        ({"Sec_Fetch_Site": "same-origin"}, True),
        ({"Origin": "own"}, True),
        ({"Origin": "own", "Sec_Fetch_Site": "cross-site"}, False),
    ],
    ids=str,
)
async def test_only_the_consoles_own_pages_change_anything(
    console: Harness, path: str, headers: dict[str, str], allowed: bool
) -> None:
    _, session = await post(console, "/sign-in", Origin=own(console))
    sent = {name: own(console) if value == "own" else value for name, value in headers.items()}
    status, _ = await post(console, path, **sent, Cookie=f"{COOKIE}={session}")
    assert status == (303 if allowed else 403)
    assert await status_of(console, session) == (401 if allowed else 200)


def test_sessions_end_and_are_bounded() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    early = sessions.open("early", "t-0")
    now = SECONDS / 2
    mine = [sessions.open("me", f"t-{n}") for n in range(MOST_EACH + 2)]
    assert [sessions.token(each) for each in mine[:3]] == ["", "", "t-2"]
    assert sessions.token(early) == "t-0", "sign-ins of one user end no session of others"
    assert "t-2" not in repr(list(vars(sessions)["_sessions"].values()))
    now = SECONDS
    assert [sessions.token(early), sessions.token(mine[-1])] == ["", f"t-{MOST_EACH + 1}"]
    for n in range(MOST + 5):
        sessions.open(f"user-{n}", "t")
    assert len(sessions) == MOST
    assert sessions.token("unknown") == ""
    now = 2 * SECONDS
    assert sessions.token("") == ""
    assert len(sessions) == 0
