"""Token reviews."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlruntime.json import Json
from ctrlruntime.webhook import Application, Authentication, UserInfo
from tests.webhook.posting import posting


async def authenticate(token: str, audiences: tuple[str, ...]) -> Authentication:
    if token == "crash":
        raise RuntimeError(f"{token} is a secret")
    if token != "good":
        return Authentication(error="unknown token")
    user = UserInfo(username="ann", groups=("team",), extra={"floor": ("3",)})
    return Authentication(user=user, audiences=audiences[:1])


def fill(app: Application) -> None:
    app.authenticate("/authenticate", authenticate)


def review(token: str, version: str = "v1") -> Json:
    return {
        "apiVersion": f"authentication.k8s.io/{version}",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": ["here", "there"]},
    }


@pytest.mark.criterion("WH-14")
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_token_has_an_owner_or_is_unknown(version: str) -> None:
    async with posting(fill) as client:
        good = await client.post("/authenticate", review("good", version))
        assert (good.code, good.body) == (
            200,
            {
                "apiVersion": f"authentication.k8s.io/{version}",
                "kind": "TokenReview",
                "status": {
                    "authenticated": True,
                    "user": {"username": "ann", "groups": ["team"], "extra": {"floor": ["3"]}},
                    "audiences": ["here"],
                },
            },
        )
        bad = await client.post("/authenticate", review("bad", version))
        assert bad.body["status"] == {"authenticated": False, "error": "unknown token"}


@pytest.mark.criterion("WH-14")
async def test_what_is_no_review_and_what_goes_wrong() -> None:
    async with posting(fill) as client:
        wrongs: list[Any] = [b"{", {}, review(""), review("x", "v9")]
        for wrong in wrongs:
            answer = await client.post("/authenticate", wrong)
            assert answer.code == 400
        large = await client.post("/authenticate", review("x" * 1024 * 1024))
        assert large.code == 413
        crashed = await client.post("/authenticate", review("crash"))
        assert crashed.code == 500
        assert crashed.body["status"]["authenticated"] is False
        assert "secret" not in str(crashed.body)
        assert client.sample("webhook_panics_total") == 1
