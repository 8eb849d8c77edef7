"""Wrong answers: of another network, of another node, of a node that lies. None of them moves a node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from internal.cosmos.cache.observation import Observation
from internal.cosmos.comet.failures import Failure, NodeError
from internal.cosmos.comet.status import parse_status, require_network
from internal.cosmos.fullnode.peers import Peer, Peers
from internal.cosmos.fullnode.plausible import STEP, Believed, believed
from internal.cosmos.fullnode.status import answers_of_own, highest
from internal.cosmos.fullnode.upgrade_gate import Crossings
from tests.cosmos.fullnode.harness import POD, NodeSetHarness, Place

BOUNDARY = 5_000
VERSIONS = [{"height": 0, "image": "gaia:v1"}, {"height": BOUNDARY, "image": "gaia:v2"}]
FOREIGN = 400_000
WAIT = 10.0
NODES = ("hub-0", "hub-1", "hub-2")
LIES = st.integers(1, 2**62)


def answer(height: int, **node_info: object) -> bytes:
    sync = {"latest_block_height": str(height), "catching_up": False}
    return json.dumps({"result": {"sync_info": sync, "node_info": node_info}}).encode()


@dataclass
class Chain:
    """The manager's decisions on the answers of a set, poll by poll."""

    recorded: dict[str, int]
    now: float = 1000.0
    earlier: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        self.crossings = Crossings(lambda: self.now, WAIT)

    def poll(self, polled: Mapping[str, int], seconds: float = 5.0) -> Believed:
        found = believed(polled, self.recorded, self.earlier or {})
        self.crossings.forget("set", found.rejected)
        admitted = self.crossings.admit("set", self.recorded, found.heights, [BOUNDARY])
        self.recorded = highest(self.recorded, admitted.heights) | found.lowered
        self.earlier, self.now = polled, self.now + seconds
        return found

    def restart(self) -> None:
        """Start another manager: only what is recorded is left."""
        self.earlier, self.crossings = None, Crossings(lambda: self.now, WAIT)

    def moved(self) -> list[str]:
        return [node for node, height in self.recorded.items() if height >= BOUNDARY]


@pytest.mark.criterion("G-N2")
@given(
    lies=st.lists(st.none() | LIES, max_size=12),
    restarts=st.sets(st.integers(0, 12)),
    liar=st.sampled_from(NODES),
)
@example(lies=[FOREIGN], restarts=set(), liar="hub-1")
@example(lies=[FOREIGN] * 9, restarts=set(), liar="hub-1")
def test_one_lying_node_of_three_moves_nothing(
    lies: list[int | None], restarts: set[int], liar: str
) -> None:
    """It may lie for good, and climb in steps; the manager may be started again at any time."""
    chain = Chain(dict.fromkeys(NODES, 100))
    for number, lie in enumerate(lies):
        if number in restarts:
            chain.restart()
        honest = dict.fromkeys(NODES, 100 + number)
        chain.poll(honest if lie is None else honest | {liar: lie})
    assert chain.moved() == []
    assert max(chain.recorded.values()) <= 100 + len(lies) + STEP


@pytest.mark.criterion("G-N2")
def test_a_node_that_climbs_in_small_steps_stays_with_the_witnesses() -> None:
    chain = Chain(dict.fromkeys(NODES, 100))
    for number in range(1, 30):
        chain.poll({"hub-0": 100, "hub-1": 100 + number * STEP // 2, "hub-2": 100})
    assert chain.moved() == []


@pytest.mark.criterion("G-N2")
@given(first=LIES, second=LIES, times=st.integers(1, 10))
@example(first=FOREIGN, second=FOREIGN, times=10)
@example(first=1, second=2, times=10)
def test_two_lying_nodes_of_three_move_none(first: int, second: int, times: int) -> None:
    chain = Chain(dict.fromkeys(NODES, 100))
    for _ in range(times):
        chain.poll({"hub-0": first, "hub-1": second, "hub-2": 100})
    assert chain.moved() == []
    upgraded = Chain(dict.fromkeys(NODES, 9_000))
    for _ in range(times):
        upgraded.poll({"hub-0": first, "hub-1": second, "hub-2": 9_000})
    assert set(upgraded.moved()) == set(NODES), "no version is taken back"


@pytest.mark.criterion("G-N2")
@pytest.mark.parametrize("nodes", [NODES[:1], NODES[:2]], ids=["one node", "two nodes"])
@given(lie=LIES, at=st.integers(0, 5), restart=st.integers(0, 6))
@example(lie=FOREIGN, at=1, restart=6)
@example(lie=BOUNDARY, at=0, restart=6)
@example(lie=FOREIGN, at=1, restart=2)
def test_without_witnesses_one_answer_moves_no_node(
    nodes: Sequence[str], lie: int, at: int, restart: int
) -> None:
    """The answers before and after it are of the node itself."""
    chain = Chain(dict.fromkeys(nodes, BOUNDARY - 100))
    for number in range(6):
        if number == restart:
            chain.restart()
        honest = dict.fromkeys(nodes, BOUNDARY - 100 + number)
        chain.poll(honest | ({nodes[-1]: lie} if number == at else {}))
    chain.poll(dict.fromkeys(nodes, BOUNDARY - 90))
    assert chain.moved() == []


@pytest.mark.criterion("G-N2")
def test_what_was_taken_back_is_forgotten_and_what_is_rejected_does_not_confirm_it() -> None:
    chain = Chain({"hub-0": BOUNDARY - 10})
    chain.poll({"hub-0": BOUNDARY + 10})
    chain.poll({"hub-0": BOUNDARY - 9})
    chain.poll({}, WAIT)
    chain.poll({})
    assert chain.moved() == []
    chain.poll({"hub-0": BOUNDARY + 10})
    assert chain.poll({"hub-0": 2**60}).rejected == {"hub-0"}
    chain.poll({}, WAIT)
    chain.poll({})
    assert chain.moved() == []


@pytest.mark.criterion("G-N2")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_upgrade_goes_through(count: int) -> None:
    """With witnesses and without, also if the nodes stop at its height, and after days without a manager."""
    nodes = NODES[:count]
    for at in (BOUNDARY, BOUNDARY + 80_000):
        chain = Chain(dict.fromkeys(nodes, 100))
        for _ in range(4):
            chain.poll(dict.fromkeys(nodes, at))
        assert chain.moved() == list(nodes)
    halted = Chain(dict.fromkeys(nodes, BOUNDARY - 1))
    halted.poll(dict.fromkeys(nodes, BOUNDARY))
    halted.poll({}, WAIT)
    halted.poll({})
    assert halted.moved() == list(nodes)


@pytest.mark.criterion("G-N2")
def test_a_chain_that_begins_again_at_a_lower_height_takes_its_nodes_down_with_it() -> None:
    chain = Chain(dict.fromkeys(NODES, 9_000))
    found = chain.poll({"hub-0": 50, "hub-1": 51, "hub-2": 52})
    assert found.lowered == chain.recorded == {"hub-0": 50, "hub-1": 51, "hub-2": 52}
    one = Chain(dict.fromkeys(NODES, 9_000))
    assert one.poll({"hub-0": 50, "hub-1": 9_000, "hub-2": 9_001}).lowered == {}


@pytest.mark.criterion("G-N2")
def test_a_node_that_replays_blocks_quickly_is_believed_a_poll_later() -> None:
    chain = Chain({"hub-0": 0})
    for height in range(100_000, 1_000_000, 100_000):
        chain.poll({"hub-0": height})
    assert chain.recorded["hub-0"] == 800_000


@pytest.mark.criterion("G-N2")
@pytest.mark.parametrize(
    ("node_info", "chain_id", "fails"),
    [
        ({"network": "osmosis-1"}, "hub-1", True),
        ({"network": "hub-10"}, "hub-1", True),
        ({"network": 7}, "hub-1", True),
        ({"network": "hub-1"}, "hub-1", False),
        ({"network": ""}, "hub-1", False),
        ({"network": None}, "hub-1", False),
        ({}, "hub-1", False),
        ({"network": "osmosis-1"}, "", False),
    ],
)
def test_an_answer_of_another_network_is_an_error(
    node_info: dict[str, object], chain_id: str, fails: bool
) -> None:
    status = parse_status(answer(7, **node_info))
    if not fails:
        assert require_network(status, chain_id) == status
        return
    with pytest.raises(NodeError, match=r"chain\.chainID is 'hub-1'") as caught:
        require_network(status, chain_id)
    assert caught.value.failure is Failure.OTHER_NETWORK
    assert len(str(caught.value)) < 200


@pytest.mark.criterion("G-N2")
def test_the_height_of_another_node_at_the_address_of_a_pod_does_not_count() -> None:
    peers = Peers((Peer("hub-0", "aa", "a:1"), Peer("hub-1", "bb", "b:1")))
    own, other = (
        Observation("hub-0", "1", 0, node_id="aa"),
        Observation("hub-1", "2", 1, node_id="aa"),
    )
    silent = Observation("hub-1", "2", 1)
    unknown = Observation("hub-7", "3", 7, node_id="cc")
    assert answers_of_own([own, other, silent, unknown], peers) == [own, silent, unknown]
    assert parse_status(answer(7, network="hub-1", id="AA")).node_id == "aa"


@pytest.mark.criterion("G-N2")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("network", ["osmosis-1", "", "hub-1"], ids=["another", "none", "its own"])
async def test_a_wrong_answer_moves_no_node(
    harness: NodeSetHarness, place: Place, network: str, replicas: int
) -> None:
    assert await image_after_a_wrong_answer(harness, place, network, replicas) == "gaia:v1"


async def image_after_a_wrong_answer(
    harness: NodeSetHarness,
    place: Place,
    network: str,
    replicas: int,
    claims: Mapping[str, str] | None = None,
) -> str:
    """Let the last node answer wrongly once. Returns the image that it has then."""
    chain, disks = {"versions": VERSIONS}, dict(claims or {})
    await place.apply(place.node_set(replicas=replicas, chain=chain, volumeClaimTemplate=disks))
    await place.settled()
    before = await place.uids()
    node, name = place.node(replicas - 1), f"hub-{replicas - 1}"
    node.network, node.height = network, FOREIGN
    await harness.comet.until_asked(name, place.namespace)
    node.network = node.height = None
    await place.polled()
    if network == "osmosis-1" and replicas > 1:
        node.network, node.height = network, FOREIGN
        found = await place.until(lambda found: found.status.ready_replicas == replicas - 1)
        assert "a string of 9 characters" in (found.status.sync[name].error or "")
        node.network = node.height = None
    found = await place.settled()
    await place.polled()
    assert found.status.height == {f"hub-{number}": 101 for number in range(replicas)}
    assert await place.uids() == before
    return str((await place.object(POD, name))["spec"]["containers"][0]["image"])


@pytest.mark.criterion("G-N2")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_an_address_that_another_node_of_the_chain_has_by_now_moves_no_node(
    place: Place,
) -> None:
    await place.apply(place.node_set(replicas=1, chain={"versions": VERSIONS}))
    await place.settled()
    before = await place.uids()
    place.node(0).height, place.node(0).node_id = FOREIGN, "ab" * 20
    for _ in range(4):
        await place.polled()
    place.node(0).height, place.node(0).node_id = None, ""
    await place.polled()
    found = await place.settled()
    assert found.status.height == {"hub-0": 101}
    assert await place.uids() == before
