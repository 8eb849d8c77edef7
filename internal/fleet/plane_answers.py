"""What a data plane answers when its id is requested: the id, nothing, or there was no way to ask.

Only silence may take a data plane for lost. Where there is no way to ask, nothing is known of it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID, KUBECONFIG_SECRET, TARGET_NAMESPACE
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client import Client, TransportError
from ctrlruntime.client.answer_limits import AnswerTooLarge
from internal.fleet.plane_access import access_of
from internal.fleet.plane_check import FAILURES, NAMESPACE, AnswerUnreadable, identify
from internal.fleet.targets import TRUE, TargetError

SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]
ANSWER: Final = 10.0
"""Seconds that a data plane has for an answer."""


class Silence(Enum):
    """Why there is no id of a data plane."""

    NO_ANSWER = auto()
    """Nothing answers at its address."""
    NOT_ASKED = auto()
    """There is no way to ask: no usable kubeconfig, credentials that are refused, another server's certificate."""


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace of the hub, and the data plane that it records."""

    name: str
    plane: str
    """Empty if none is recorded."""
    label: str
    """The label by which it has a stack, or had one that is not gone yet; empty without."""

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Place:
        """Return what the metadata of a namespace records."""
        labels = metadata.get("labels") or {}
        label = next(
            (each for each in (DATA_PLANE, TARGET_NAMESPACE) if labels.get(each) == TRUE), ""
        )
        recorded = (metadata.get("annotations") or {}).get(DATA_PLANE_ID, "")
        return cls(str(metadata["name"]), str(recorded), label)


Answers = Mapping[str, str | Silence]
"""By namespace: the id of the data plane that its kubeconfig leads to, or why there is none."""


async def places_of(hub: Client) -> list[Place]:
    """Return all namespaces of the hub. Raises the client's errors."""
    found = await hub.list(NAMESPACE, metadata_only=True)
    return [Place.of(each["metadata"]) for each in found]


async def answers_of(hub: Client, places: Collection[Place]) -> dict[str, str | Silence]:
    """Return what answers by the kubeconfig of each namespace that has one, and of these. Raises the hub's errors."""
    secrets = {
        str(each["metadata"]["namespace"]): each.get("data") or {}
        for each in await hub.list(SECRET, fields=f"metadata.name={KUBECONFIG_SECRET}")
    }
    names = secrets.keys() | {each.name for each in places}
    found = await asyncio.gather(*(answer_of(secrets.get(each)) for each in names))
    return dict(zip(names, found, strict=True))


async def answer_of(data: Mapping[str, Any] | None) -> str | Silence:
    """Return the id of the data plane that a kubeconfig leads to, by the `data` of its Secret; None: there is none."""
    if data is None:
        return Silence.NOT_ASKED
    try:
        async with asyncio.timeout(ANSWER), Client.connect(access_of(data).config) as plane:
            return await identify(plane)
    except (*FAILURES, TargetError) as error:
        return silence_of(error)


def silence_of(error: BaseException) -> Silence:
    """Return what an error of a request to a data plane shows.

    A refusal is an answer, and so are the certificate, or the page, of whatever is at the address.
    """
    if isinstance(error, AnswerUnreadable | AnswerTooLarge) or _is_of_tls(error):
        return Silence.NOT_ASKED
    silent = isinstance(error, TransportError | TimeoutError)
    return Silence.NO_ANSWER if silent else Silence.NOT_ASKED


def _is_of_tls(error: BaseException) -> bool:
    """Whether a connection failed over certificates."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def place_with(plane: str, answers: Answers) -> str:
    """Return the first namespace by whose kubeconfig a data plane answers; empty if it is silent."""
    return min((name for name, answer in answers.items() if answer == plane), default="")


def place_unasked(plane: str, places: Sequence[Place], answers: Answers, *, named: str = "") -> str:
    """Return the first namespace that may have a data plane, and by which there is no way to ask it; empty if there is none.

    One that records another data plane has not this one, unless it is the `named` one.
    """
    recorded = {each.name: each.plane for each in places}
    possible = (
        name
        for name, answer in answers.items()
        if answer is Silence.NOT_ASKED and (name == named or recorded.get(name, "") in {"", plane})
    )
    return min(possible, default="")


def unasked_message(plane: str, what: str, place: str) -> str:
    """Return that it is not known whether a data plane is lost, or what else is in `what`, and what to do."""
    return (
        f"whether data plane {plane} {what} is not known: namespace {place} may have it, and has no kubeconfig that can be "
        f"used; put a valid one there: kubectl edit secret {KUBECONFIG_SECRET} -n {place}"
    )
