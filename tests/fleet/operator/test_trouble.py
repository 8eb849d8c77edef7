"""Trouble of one data plane: it is named with what to do, the stack stays, and the others notice nothing."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.fleet.labels import DATA_PLANE_ID
from ctrlruntime.envtest.proxy import Fail, Match
from ctrlruntime.manager import Manager
from internal.fleet.labels import KUBECONFIG_HASH
from internal.fleet.plane_access import access_of
from internal.fleet.stack_builder import DEPLOYMENT
from internal.fleet.targets import TargetError

from .harness import (
    LEASES,
    NAMESPACE,
    OBJECTS,
    SCALE,
    WORKLOADS,
    DataPlane,
    Hub,
    deployed,
    eventually,
    kubeconfig,
    namespace,
    planes,
)

PATCH_LEASE = Match(verb="patch", resource="leases.coordination.k8s.io")


async def hashes(hub: Hub, name: str) -> set[str]:
    """The hashes of kubeconfigs in the Pod templates of a stack."""
    found = set()
    for mapping, workload, _ in WORKLOADS:
        each: Any = await hub.client.get(mapping, workload, namespace=name)
        found.add(each["spec"]["template"]["metadata"]["annotations"][KUBECONFIG_HASH])
    return found


async def stack_arguments(hub: Hub, name: str) -> list[list[str]]:
    """The arguments of a stack's containers."""
    found = []
    for mapping, workload, _ in WORKLOADS:
        each: Any = await hub.client.get(mapping, workload, namespace=name)
        found += [item["args"] for item in each["spec"]["template"]["spec"]["containers"]]
    return found


async def until_stale(hub: Hub, *stale: str, renewed: dict[str, DataPlane] | None = None) -> None:
    """Let as much time pass as a Lease counts, in which those of some data planes are renewed."""
    hub.clock.let_leases_end()
    for name, plane in (renewed or {}).items():
        await plane.renew()
        await hub.touch(name)
    await hub.touch(*stale)


async def test_a_data_plane_that_is_down_is_unreachable_and_its_stack_stays() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east, west=west)
        (before,) = [entry for entry in await hub.entries() if entry.name == "west"]
        await east.stop()
        await hub.touch("east", "west")  # less than 60 s: nothing is said
        await hub.until(east="SuccessfulDeployment", west="SuccessfulDeployment")
        hub.clock.let_leases_end()
        await west.renew()
        await hub.touch("east")
        await hub.until(east="DataPlaneUnreachable", west="SuccessfulDeployment")
        assert [entry.name for entry in await hub.entries()] == ["east", "west"]
        assert (await hub.entries())[1] == before
        assert "look at its API server and the network" in await hub.message("east")
        assert (await hub.condition("Ready"))[0] == "False"
        assert await hub.objects("east") == OBJECTS
        await east.restart()
        await east.renew()
        await hub.until(east="SuccessfulDeployment", west="SuccessfulDeployment")


@pytest.mark.criterion("FLEET-R24")
async def test_r24_one_data_plane_under_two_namespaces_is_not_unique() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, first=east)
        await hub.add("second", east)
        await hub.until(first="SuccessfulDeployment", second="DataPlaneNotUnique")
        assert "namespace first has the same data plane" in await hub.message("second")
        assert await hub.objects("second") == set()
        assert await hub.identity("second") == ""
        await hub.label("first", None)  # when the first goes, the second takes over
        await hub.run_stack("second", east)
        await hub.until(second="SuccessfulDeployment")
        assert await hub.objects("first") == set()


async def test_r24_of_two_at_the_same_time_one_gets_the_data_plane() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        for name in ("first", "second"):
            await hub.add(name, east)
        await hub.configure(**SCALE)

        async def decided() -> bool:
            return sorted((await hub.reasons()).values()) == [
                "DataPlaneNotUnique",
                "StackNotAvailable",
            ]

        await eventually(decided, hub.config)
        recorded = [await hub.identity(name) for name in ("first", "second")]
        assert sorted(recorded) == ["", await east.identity()]


@pytest.mark.criterion("FLEET-R28", "D5-13")
async def test_r28_another_kubeconfig_of_the_data_plane_rolls_the_stack_once() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        (old,) = await hashes(hub, "east")
        await hub.write_secret("east", f"# rotated\n{east.kubeconfig()}")

        async def rolled() -> bool:
            found = await hashes(hub, "east")
            return len(found) == 1 and old not in found

        await eventually(rolled, hub.config)
        await east.renew()
        await hub.until(east="SuccessfulDeployment")
        for mapping, workload, _ in WORKLOADS:
            found: Any = await hub.client.get(mapping, workload, namespace="east")
            assert found["metadata"]["generation"] == 2


@pytest.mark.criterion("FLEET-R28")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not YAML"),
        ("- 1", "is empty or not a mapping"),
        ("clusters: {}\nusers: 5", "users is not a list"),
        (kubeconfig("https://a", exec={"command": "sh"}), "uses exec, which is refused"),
        (kubeconfig("https://a", tokenFile="/etc/passwd"), "uses tokenFile, which is refused"),
        (
            kubeconfig("https://a", cluster={"certificate-authority": "/etc/passwd"}),
            "uses certificate-authority, which is refused",
        ),
        (kubeconfig("not a url"), "is no URL"),
        (f"# {'x' * 1_000_000}\n{kubeconfig('https://a')}", r"1,000,\d+ bytes, at most 262,144"),
    ],
)
async def test_r28_a_kubeconfig_that_cannot_be_used_leaves_the_stack_as_it_is(
    content: str, words: str
) -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        before = await hashes(hub, "east")
        await hub.write_secret("east", content)
        await hub.until(east="KubeconfigInvalid")
        assert re.search(words, await hub.message("east"))
        assert await hashes(hub, "east") == before
        await hub.write_secret("east", east.kubeconfig())
        await hub.until(east="SuccessfulDeployment")


async def test_a_secret_without_the_key_is_reported_with_the_key() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await hub.add("east", None)
        await hub.write_secret("east", east.kubeconfig(), key="config")
        await hub.until(east="KubeconfigInvalid")
        assert "has no key 'kubeconfig'; put the kubeconfig there" in await hub.message("east")


@pytest.mark.criterion("D5-13")
async def test_d5_13_a_deleted_secret_is_a_failure_and_the_stack_stays() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.delete_secret("east")
        await hub.until(east="KubeconfigSecretMissing")
        assert await hub.objects("east") == OBJECTS


async def test_an_expired_client_certificate_is_reported_before_it_is_used() -> None:
    now = datetime.now(UTC)
    certificate, key = client_certificate(now + timedelta(hours=1))
    user: dict[str, Any] = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    text = kubeconfig("https://127.0.0.1:1", **user)
    access = access_of({"kubeconfig": base64.b64encode(text.encode()).decode()})
    access.check(now)
    life, end = timedelta(days=1), now + timedelta(hours=1)
    assert "expires at" in access.ending(end - life / 10)
    assert access.ending(end - life / 9) == ""
    with pytest.raises(TargetError, match=r"expired at .*put a kubeconfig with a new one"):
        access.check(now + timedelta(hours=1))


async def test_a_kubeconfig_of_another_server_changes_nothing() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        before = await hashes(hub, "east")
        await hub.write_secret("east", west.kubeconfig())
        await hub.until(east="DataPlaneChanged")
        assert await hashes(hub, "east") == before
        assert await hub.identity("east") == await east.identity()
        await hub.write_secret("east", east.kubeconfig())
        await hub.until(east="SuccessfulDeployment")


@pytest.mark.criterion("G-F4")
async def test_an_id_that_was_edited_by_hand_gets_into_no_stack_also_after_a_restart() -> None:
    async with Hub.running() as hub, planes(1) as (east,):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, east=east)
        before = await stack_arguments(hub, "east")
        assert f"--data-plane-id={await east.identity()}" in str(before)
        patch = {"metadata": {"annotations": {DATA_PLANE_ID: "edited"}}}
        await hub.client.patch(NAMESPACE, "east", patch)
        async with hub.operator():
            await hub.until(east="DataPlaneChanged")
            assert await stack_arguments(hub, "east") == before


async def test_another_server_at_the_same_address_is_found_when_the_lease_is_not_renewed() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await east.stop()
        await east.restart(upstream=west.server.url)
        await until_stale(hub, "east")
        await hub.until(east="DataPlaneChanged")
        assert await hub.objects("east") == OBJECTS


async def test_a_data_plane_that_is_not_prepared_names_what_is_missing() -> None:
    async with Hub.running() as hub, DataPlane.running(prepared=False) as east, hub.operator():
        await hub.configure(**SCALE)
        await hub.add("east", east)

        async def missing(what: str) -> bool:
            reasons = await hub.reasons()
            return reasons == {"east": "DataPlaneNotPrepared"} and what in await hub.message("east")

        await eventually(lambda: missing("namespace fleet-system is missing"), hub.config)
        await east.client.create(namespace("fleet-system"))
        await eventually(lambda: missing("CRD tenants.tenancy.ctrlruntime.dev is missing"))
        await east.client.delete(NAMESPACE, "fleet-system")

        async def gone() -> bool:
            return not [
                each
                for each in await east.client.list(NAMESPACE)
                if each["metadata"]["name"] == "fleet-system"
            ]

        await eventually(gone)
        await east.prepare()
        await hub.run_stack("east", east)
        await hub.until(east="SuccessfulDeployment")
        assert await hub.objects("east") == OBJECTS


async def test_refused_credentials_are_forbidden_and_not_shown() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await hub.add("east", None)
        await hub.write_secret("east", east.kubeconfig(token="sesame"))
        await hub.until(east="DataPlaneForbidden")
        message = await hub.message("east")
        assert "refuses the credentials; put valid ones into Secret" in message
        assert "sesame" not in message
        assert await hub.objects("east") == set()


async def test_a_missing_right_on_the_data_plane_is_named() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        east.proxy.add(
            Fail(403, reason="Forbidden", message="customresourcedefinitions is forbidden"),
            Match(resource="customresourcedefinitions.apiextensions.k8s.io"),
            times=None,
        )
        await hub.configure(**SCALE)
        await hub.add("east", east)
        await hub.until(east="DataPlaneForbidden")
        assert "customresourcedefinitions is forbidden; grant it" in await hub.message("east")


@pytest.mark.criterion("FLEET-R32")
async def test_rights_to_list_and_watch_and_to_get_kube_system_suffice_on_a_data_plane() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        crds = Match(verb="get", resource="customresourcedefinitions.apiextensions.k8s.io")
        system = Match(verb="get", resource="namespaces", name="fleet-system")
        for match in (crds, system):
            east.proxy.add(Fail(403, reason="Forbidden"), match, times=None)
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        assert await hub.objects("east") == OBJECTS


@pytest.mark.parametrize(
    "fault",
    [
        Fail(507, message="no room"),
        Fail(500, message="etcdserver: mvcc: database space exceeded"),
        Fail(403, reason="Forbidden", message="exceeded quota: leases"),
    ],
)
async def test_a_data_plane_that_takes_no_writes_is_full(fault: Fail) -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        rule = east.proxy.add(fault, PATCH_LEASE, times=None)
        await until_stale(hub, "east")
        await hub.until(east="DataPlaneFull")
        assert "delete objects there, or enlarge it" in await hub.message("east")
        assert await hub.objects("east") == OBJECTS
        east.proxy.remove(rule)
        await east.renew()
        await hub.until(east="SuccessfulDeployment")


async def test_controllers_that_stop_renewing_make_the_stack_unavailable() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await until_stale(hub, "east")
        await hub.until(east="StackNotAvailable")
        assert "have renewed the Lease for 600 s" in await hub.message("east")
        lease: Any = await east.client.get(LEASES, "fleet-controllers", namespace="fleet-system")
        assert lease["spec"]["holderIdentity"] == "controllers"  # it was probed, not taken


async def test_an_object_of_another_owner_in_the_way_is_left_and_named() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await hub.client.create(namespace("east"))
        labels = {"app": "other"}
        await hub.client.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "fleet-admission", "namespace": "east"},
                "spec": {
                    "replicas": 0,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "a", "image": "b"}]},
                    },
                },
            }
        )
        await hub.write_secret("east", east.kubeconfig())
        await hub.label("east")
        await hub.until(east="DeploymentFailure")
        assert "Deployment fleet-admission is left" in await hub.message("east")
        found: Any = await hub.client.get(DEPLOYMENT, "fleet-admission", namespace="east")
        assert found["spec"]["replicas"] == 0


@pytest.mark.criterion("FLEET-R19")
async def test_r19_a_restart_writes_nothing_and_requests_nothing_of_a_data_plane() -> None:
    async with Hub.running() as hub, planes(2) as (east, west):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, east=east, west=west)
            before = await hub.entries()
        await west.stop()
        mark, plane_mark = hub.environment.proxy.log.mark(), east.proxy.log.mark()
        async with hub.operator() as manager:

            async def engaged() -> bool:
                names = ("east", "west")
                found = [name for name in names if name in manager_clusters(manager)]
                return found == list(names)

            await eventually(engaged)
            await east.renew()
            await hub.touch("east", "west")
            await hub.add("last", None)  # a later write that is seen: the status of a third
            await hub.until(
                last="KubeconfigSecretMissing",
                east="SuccessfulDeployment",
                west="SuccessfulDeployment",
            )
        log = hub.environment.proxy.log.since(mark).select(user="operator")
        written = {row.resource for row in log if row.verb not in {"get", "list", "watch"}}
        assert written == {"namespaces", "fleetconfigs.fleet.ctrlruntime.dev/status"}
        assert log.select(resource="namespaces", verbs={"patch"}).total == 1  # the third's mark
        assert (await hub.entries())[1:] == before
        counts = east.proxy.log.since(plane_mark)
        assert counts.total - counts.watches == 0


def manager_clusters(manager: Manager) -> set[str]:
    """Names of the clusters that are engaged."""
    found = set()
    for name in ("east", "west"):
        try:
            manager.get_cluster(name)
        except LookupError:
            continue
        found.add(name)
    return found


def client_certificate(end: datetime) -> tuple[bytes, bytes]:
    """A certificate and its key, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes as digests
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stack")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(end - timedelta(days=1))
        .not_valid_after(end)
        .sign(key, digests.SHA256())
    )
    pem = serialization.Encoding.PEM
    return made.public_bytes(pem), key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
