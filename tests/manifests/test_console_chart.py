"""The console of the chart: flags that go together, a Service for each Deployment, who may reach it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from manager.commands.run import run
from manager.console.options import ConsoleOptions
from manager.flags.serving import take_console_options
from tests.docs.blocks import blocks
from tests.manifests.test_chart import ONE, Rendered, chart, helm, rendered

__all__ = ["chart", "helm", "rendered"]
pytestmark = [pytest.mark.xdist_group("manifests"), pytest.mark.criterion("U-16")]
PROXIED = {"enabled": True, "trustedProxies": ["10.0.0.0/8", "fd00::/8"]}


def taken(deployment: dict[str, Any]) -> ConsoleOptions:
    """The console's options of a Deployment, as its manager takes them."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    flags = [each for each in container["args"][1:] if each.startswith("--console")]
    options = take_console_options(run.make_context("run", flags).params)
    options.check()
    return options


@pytest.mark.parametrize("accounts", [{}, ONE], ids=["by-system", "one"])
@pytest.mark.parametrize("console", [{"enabled": True}, PROXIED], ids=["tokens", "proxied"])
def test_every_deployment_serves_its_console_at_a_service_of_its_own(
    accounts: dict[str, Any], console: dict[str, Any], rendered: Rendered
) -> None:
    found = rendered({**accounts, "console": console, "networkPolicy": {"enabled": True}})
    deployments = [each for each in found if each["kind"] == "Deployment"]
    services = [each for each in found if each["metadata"]["name"].endswith("-console-service")]
    assert len(deployments) == len(services) == (1 if accounts else 3)
    for deployment, service in zip(deployments, services, strict=True):
        options = taken(deployment)
        assert options.enabled
        assert options.secure == ("trustedProxies" not in console)
        assert bool(options.trusted_proxies) != options.secure
        template = deployment["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        (port,) = service["spec"]["ports"]
        assert port["name"] == ("https" if options.secure else "http")
        ports = {each["name"]: each for each in template["spec"]["containers"][0]["ports"]}
        assert ports[port["targetPort"]]["containerPort"] == 8090
        assert options.bind_address == ":8090"
    policies = {each["metadata"]["name"]: each for each in found if each["kind"] == "NetworkPolicy"}
    (ingress,) = policies["ctrlruntime-allow-console-traffic"]["spec"]["ingress"]
    assert ingress["ports"] == [{"port": 8090, "protocol": "TCP"}]


def test_it_is_off_by_default_and_takes_networks_alone(rendered: Rendered) -> None:
    assert "console" not in yaml.safe_dump(rendered({"networkPolicy": {"enabled": True}}))
    done = rendered.run({"console": {"enabled": True, "trustedProxies": ["proxy.example.com"]}})
    assert done.returncode != 0
    assert "console.trustedProxies.0" in done.stderr.replace("/", ".")


def test_the_example_of_a_proxy_leads_to_the_service_of_the_chart(rendered: Rendered) -> None:
    (block,) = [each for each in blocks("docs/console.md") if "kind: Ingress" in each.text]
    example = {each["kind"]: each for each in yaml.safe_load_all(block.text)}
    values = {"accounts": {"bySystem": False}, "console": PROXIED}
    found = {each["metadata"]["name"]: each for each in rendered(values) if each}
    (container,) = example["Deployment"]["spec"]["template"]["spec"]["containers"]
    (upstream,) = [each for each in container["args"] if each.startswith("--upstream=")]
    name, _, port = upstream.removeprefix("--upstream=http://").strip("/").partition(":")
    assert [str(each["port"]) for each in found[name]["spec"]["ports"]] == [port]
    (rule,) = example["Ingress"]["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend["name"] == example["Service"]["metadata"]["name"]
    labels = example["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert example["Service"]["spec"]["selector"] == labels
