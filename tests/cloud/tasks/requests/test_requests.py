"""Requests of a spec, against a web site on loopback."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from apis.cloud import HTTPRequest
from apis.references import SecretKeyRef
from internal.cloud.tasks import TaskRejected
from internal.cloud.tasks.http import RetryPolicy
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.requests import Requests
from tests.cloud.servers.site import Say, Site

SECRET = "s3cret-value"
PLACES = Places(
    values={"instance": "src-1", "version": "5.3.0", "domain": None, "alerting": True},
    outputs={"path": "health", "region": "eu"},
)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


@pytest.fixture
async def other() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


@pytest.fixture
def naps() -> list[float]:
    return []


@pytest.fixture
async def requests(naps: list[float]) -> AsyncIterator[Requests]:
    def secret(ref: SecretKeyRef) -> str:
        return SECRET + "\n"

    async def nap(seconds: float) -> None:
        naps.append(seconds)
        await asyncio.sleep(0)

    now = 0.0

    def clock() -> float:
        return now + sum(naps)

    async with Requests(PLACES, secret, sleep=nap, clock=clock) as requests:
        yield requests


def request(url: str, **fields: object) -> HTTPRequest:
    return HTTPRequest.model_validate({"url": url, **fields})


def bearer() -> list[dict[str, Any]]:
    ref = {"name": "api", "key": "token"}
    return [{"name": "Authorization", "prefix": "Bearer ", "valueFrom": ref}]


async def test_places_are_filled_in_url_headers_body_and_expected_values(
    site: Site, requests: Requests
) -> None:
    site.answers["POST /health"] = Say(json={"version": "5.3.0", "on": True})
    answer = await requests.send(
        request(
            f"{site.url}/${{outputs.path}}",
            method="POST",
            headers={"X-Instance": "${instance}"},
            secretHeaders=bearer(),
            body={"on": "${alerting}", "name": "a ${instance}", "list": ["$${HOME}"]},
            expect=[
                {"path": "$.version", "equals": "${version}"},
                {"path": "$.on", "equals": "${alerting}"},
            ],
        )
    )
    assert answer.good, answer.text
    [asked] = site.asked
    assert asked.headers["X-Instance"] == "src-1"
    assert asked.headers["Authorization"] == f"Bearer {SECRET}"
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.body == {"on": True, "name": "a src-1", "list": ["${HOME}"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "${nothing}",
            "nothing is known as ${nothing}: there are alerting, domain, instance, version",
        ),
        ("${outputs.x}", "no task has such an output; there are: path, region"),
        ("${domain}", "the instance has no domain"),
    ],
)
async def test_what_cannot_be_filled_is_rejected_before_anything_is_sent(
    site: Site, requests: Requests, text: str, says: str
) -> None:
    with pytest.raises(TaskRejected, match=re.escape(says)):
        await requests.send(request(site.url, headers={"X": text}))
    assert site.asked == []


@pytest.mark.parametrize(
    ("said", "expect", "complaint"),
    [
        ({"a": 1}, {"path": "$.b"}, "$.b is missing"),
        ({"a": 1}, {"path": "$.a", "equals": True}, "$.a is a number, not true"),
        ({"a": [1, 2]}, {"path": "$.a[*]", "equals": 1}, "$.a[*] is a number, not 1"),
        (
            {"a": SECRET},
            {"path": "$.a", "equals": "x"},
            '$.a is a string of 12 characters, not "x"',
        ),
        ({"a": None}, {"path": "$.a", "equals": 0}, "$.a is null, not 0"),
    ],
)
async def test_an_answer_that_is_not_as_expected_reports_in_what(
    site: Site, requests: Requests, said: object, expect: dict[str, Any], complaint: str
) -> None:
    site.answers["GET /x"] = Say(json=said)
    answer = await requests.send(
        request(f"{site.url}/x?key=private", expect=[expect], secretHeaders=bearer())
    )
    assert not answer.good
    assert answer.text == f"GET {site.url}/x answered 200, and {complaint}"


async def test_any_value_will_do_without_equals_and_null_is_a_value(
    site: Site, requests: Requests
) -> None:
    site.answers["GET /x"] = Say(json={"a": None, "b": {"c": [1.0]}})
    expect = [{"path": "$.a"}, {"path": "$.b", "equals": {"c": [1]}}]
    assert (await requests.send(request(f"{site.url}/x", expect=expect))).good


async def test_no_json_and_an_unexpected_code_are_no_good_answers(
    site: Site, requests: Requests
) -> None:
    site.answers["GET /page"] = Say(text="<html>")
    answer = await requests.send(request(f"{site.url}/page", expect=[{"path": "$"}]))
    assert answer.text.endswith("answered 200, and no JSON")
    answer = await requests.send(request(f"{site.url}/gone", statusCodes=[200, 204]))
    assert answer.text.endswith("answered 404, not 200 or 204")
    assert (await requests.send(request(f"{site.url}/gone", statusCodes=[404]))).good


async def test_an_impossible_path_or_address_is_rejected(site: Site, requests: Requests) -> None:
    with pytest.raises(TaskRejected, match="is no JSONPath"):
        requests.check(request(site.url, expect=[{"path": "$.a["}]))
    with pytest.raises(TaskRejected, match="no address"):
        await requests.send(request("http://"))


@pytest.mark.parametrize("trouble", [Say(status=503), Say(status=429), Say(status=502)])
async def test_passing_trouble_is_sat_out(
    site: Site, requests: Requests, naps: list[float], trouble: Say
) -> None:
    site.answers["GET /"] = [trouble, trouble, Say()]
    assert (await requests.send(request(site.url))).good
    assert naps == [1.0, 2.0]


async def test_a_connection_that_breaks_is_tried_again(
    site: Site, requests: Requests, naps: list[float]
) -> None:
    site.answers["GET /"] = [
        *[Say(hang_up=True)] * 4,
        Say(),
    ]  # aiohttp repeats a GET once by itself
    assert (await requests.send(request(site.url))).good
    assert naps == [1.0, 2.0]


async def test_retry_after_is_heeded_up_to_a_limit(
    site: Site, requests: Requests, naps: list[float]
) -> None:
    site.answers["GET /"] = [
        Say(status=429, headers={"Retry-After": "7"}),
        Say(status=503, headers={"Retry-After": "3600"}),
        Say(),
    ]
    assert (await requests.send(request(site.url))).good
    assert naps == [7.0, RetryPolicy().max_header_delay]


async def test_tries_come_to_an_end(site: Site, requests: Requests) -> None:
    site.answers["GET /"] = Say(status=503)
    answer = await requests.send(request(site.url))
    assert answer.text == f"GET {site.url} answered 503, not 200"
    assert len(site.asked) == RetryPolicy().attempts


async def test_what_may_have_been_done_is_not_sent_again_without_a_key(
    site: Site, requests: Requests
) -> None:
    site.answers["POST /"] = [Say(hang_up=True), Say()]
    answer = await requests.send(request(site.url, method="POST"))
    assert not answer.good
    assert "gave no answer" in answer.text
    assert len(site.asked) == 1

    site.answers["POST /"] = [Say(hang_up=True), Say(status=502), Say()]
    answer = await requests.send(request(site.url, method="POST"), idempotency_key="key-1")
    assert answer.good
    assert {each.headers["Idempotency-Key"] for each in site.asked[1:]} == {"key-1"}
    assert len(site.asked) == 4


async def test_what_surely_was_not_done_is_sent_again(site: Site, requests: Requests) -> None:
    site.answers["POST /"] = [Say(status=429), Say(status=503), Say()]
    assert (await requests.send(request(site.url, method="POST"))).good
    site.answers["POST /"] = [Say(status=502), Say()]
    assert not (await requests.send(request(site.url, method="POST"))).good


async def test_a_server_that_is_not_there_is_said_to_be(requests: Requests) -> None:
    async with Site() as gone:
        url = gone.url
    answer = await requests.send(request(f"{url}/x?token=private", method="POST"))
    assert answer.text.startswith(f"POST {url}/x: {url}/x cannot be reached")
    assert "private" not in answer.text


async def test_an_answer_that_does_not_come_in_time(site: Site, requests: Requests) -> None:
    site.answers["POST /"] = Say(silent=True)
    answer = await requests.send(request(site.url, method="POST", timeoutSeconds=1))
    assert "did not answer within 1 s" in answer.text


async def test_secrets_stay_with_their_host(site: Site, other: Site, requests: Requests) -> None:
    site.answers["GET /a"] = Say(status=302, headers={"Location": "/b"})
    site.answers["GET /b"] = Say(status=307, headers={"Location": f"{other.url}/c"})
    other.answers["GET /c"] = Say(status=302, headers={"Location": f"{site.url}/d"})
    site.answers["GET /d"] = Say()
    answer = await requests.send(
        request(f"{site.url}/a", headers={"Cookie": "own", "X-Own": "1"}, secretHeaders=bearer())
    )
    assert answer.good
    sent = [("Authorization" in each.headers, "Cookie" in each.headers) for each in site.asked]
    assert sent == [(True, True), (True, True), (False, False)]
    [foreign] = other.asked
    assert "Authorization" not in foreign.headers
    assert "Cookie" not in foreign.headers
    assert foreign.headers["X-Own"] == "1"


async def test_redirects_change_methods_as_browsers_do(site: Site, requests: Requests) -> None:
    for code, method in ((301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")):
        site.asked.clear()
        site.answers["POST /a"] = Say(status=code, headers={"Location": "/b"})
        site.answers[f"{method} /b"] = Say()
        answer = await requests.send(request(f"{site.url}/a", method="POST", body={"x": 1}))
        assert answer.good
        assert site.asked[1].body == ({"x": 1} if method == "POST" else None)
        assert ("Content-Type" in site.asked[1].headers) == (method == "POST")


async def test_signed_addresses_are_followed_letter_by_letter(
    site: Site, requests: Requests
) -> None:
    signed = "/b%2Fc~d?X-Signature=a%2Bb%3D%41&e=+"
    site.answers["GET /a b"] = Say(status=302, headers={"Location": signed})
    site.answers["GET /b/c~d"] = Say()
    assert (await requests.send(request(f"{site.url}/a b"))).good
    assert [each.raw_path for each in site.asked] == ["/a%20b", signed]


async def test_redirects_in_a_circle_or_to_files_are_refused(
    site: Site, requests: Requests
) -> None:
    site.answers["GET /a"] = Say(status=302, headers={"Location": "/a"})
    with pytest.raises(TaskRejected, match="10 redirects"):
        await requests.send(request(f"{site.url}/a"))
    for target in ("file:///etc/passwd", "http://a:65536/", "http://a:1x/"):
        site.answers["GET /a"] = Say(status=302, headers={"Location": target})
        with pytest.raises(TaskRejected, match="no address of http"):
            await requests.send(request(f"{site.url}/a"))


async def test_until_good(site: Site, requests: Requests, naps: list[float]) -> None:
    site.answers["GET /"] = [*(Say(json={"n": n}) for n in range(3)), Say(json={"n": 3})]
    wanted = request(site.url, expect=[{"path": "$.n", "equals": 3}])
    assert (await requests.until_good(wanted, within=60, every=5)).good
    assert naps == [5, 5, 5]
    site.answers["GET /"] = Say(json={"n": 0})
    site.asked.clear()
    answer = await requests.until_good(wanted, within=12, every=5)
    assert not answer.good
    assert len(site.asked) == 3


async def test_no_more_of_an_answer_is_read_than_the_limit(site: Site, requests: Requests) -> None:
    site.answers["GET /"] = Say(text="[" + "1," * 1000 + "1]")
    answer = await requests.send(request(site.url, expect=[{"path": "$[0]"}]), limit=100)
    assert not answer.good
    assert len(answer.body) == 100


async def test_an_answer_that_nests_too_deep_for_a_path_is_not_good(
    site: Site, requests: Requests
) -> None:
    """S-F3: the check ended with an error of the library."""
    site.answers["GET /"] = Say(text='{"a":' * 150 + "1" + "}" * 150)
    answer = await requests.send(request(site.url, expect=[{"path": "$..c"}]))
    assert not answer.good
    assert "$..c cannot be looked for" in answer.text


def test_manifests_keep_what_is_not_ours() -> None:
    fill: Callable[..., Any] = PLACES.fill_data
    data = {"cmd": "echo ${HOME} ${version}", "n": 1, "l": [{"x": "${outputs.region}"}]}
    filled = {"cmd": "echo ${HOME} 5.3.0", "n": 1, "l": [{"x": "eu"}]}
    assert fill(data, keep_unknown=True) == filled
    with pytest.raises(TaskRejected, match="no task has such an output"):
        fill({"a": "${outputs.gone}"}, keep_unknown=True)
