"""Flags of the console: what would send tokens in clear does not start."""

from __future__ import annotations

import json
from ipaddress import ip_network

import aiohttp
import pytest
from click.testing import CliRunner

from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from ctrlruntime.envtest import Environment
from manager.cli import main
from manager.commands.run import run
from manager.flags.serving import take_console_options
from manager.kinds import KINDS
from tests.manager_cli.program import Program


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--console-bind-address", ":8090"), "--console-secure"),
        (
            ("--console-bind-address", "127.0.0.1:0", "--console-cert-path", "."),
            "needs --console-secure",
        ),
        (("--console-trusted-proxy", "10.0.0.1/8"), "has host bits set"),
        (
            (
                *("--data-plane-kubeconfig", "plane", "--target-namespace", "x"),
                *("--console-bind-address", "127.0.0.1:0"),
            ),
            "has no console",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(main, ["run", *flags])
    assert done.exit_code == 2
    assert message in done.output


def test_the_console_is_off_unless_it_has_an_address() -> None:
    given = run.make_context("run", []).params
    assert not take_console_options(given).enabled
    assert not [name for name in given if name.startswith("console")]
    flags = ["--console-bind-address", "10.1.2.3:1", "--console-trusted-proxy", "10.1.0.0/16"]
    options = take_console_options(run.make_context("run", flags).params)
    assert options.enabled
    assert options.trusted_proxies == (ip_network("10.1.0.0/16"),)


async def test_the_operator_has_a_console_with_the_data_planes_of_its_fleetconfig() -> None:
    async with Environment("embedded-process") as environment:
        await environment.install_crds(*KINDS)
        config = {"kind": "FleetConfig", "metadata": {"name": NAME}, "spec": {}}
        client = environment.client()
        await client.create({"apiVersion": FleetConfig.gvk().api_version, **config})
        flags = (
            *("--kubeconfig", environment.kubeconfig("admin"), "--stack-image", "example.com/x"),
            *("--metrics-bind-address", "0", "--health-probe-bind-address", "0"),
            *("--console-bind-address", "127.0.0.1:0"),
        )
        async with await Program.start("operator", *flags) as program:
            line = json.loads(await program.prints("Serving the console"))
            headers = {"Authorization": f"Bearer {environment.user('admin').token}"}
            async with (
                aiohttp.ClientSession(headers=headers) as session,
                session.get(f"{line['url']}data-planes") as answer,
            ):
                text = await answer.text()
    assert answer.status == 200
    assert "no FleetConfig in its cache" not in text
    assert "own cluster" in text
