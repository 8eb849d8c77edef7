"""The configuration that is rendered from a spec."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import Any

import pytest

from apis.cloud import InstanceTerraformSpec
from internal.cloud.labels import CLOUDSQL_MODE, CMEK_ALGORITHM, ENABLE_CMEK
from internal.cloud.tasks import TaskRejected
from internal.cloud.tasks.terraform.configuration import Configuration, archive, configuration
from internal.cloud.tasks.terraform.events import Output, split
from internal.cloud.tasks.terraform.inputs import literal

FULL: dict[str, Any] = {
    "infrastructure": {
        "gcp": {
            "zone": "europe-west1-b",
            "projectId": "acme-prod",
            "gke": {
                "blue": {
                    "machineType": "n2-standard-8",
                    "additionalOauthScopes": ["https://www.googleapis.com/auth/drive"],
                },
                "green": {"machineType": "n2-standard-16"},
            },
        },
        "privateCodeHost": {
            "enabled": True,
            "aws": {
                "accountID": "123456789012",
                "region": "eu-west-1",
                "privateLinks": [{"endpoint": "svc-1", "ports": [443]}],
            },
        },
        "privateDNS": {
            "routes": [{"source": "corp.", "destination": "vpc-1", "resolverIP": "10.0.0.2"}]
        },
        "terraform": {
            "terraformVersion": "~> 1.9",
            "module": {
                "source": "app.terraform.io/acme/instance/google",
                "version": "~> 2.0",
                "inputs": {"size": 3, "script": "echo ${HOME} %{if}"},
                "outputs": ["project_id"],
                "sensitiveOutputs": ["kubeconfig"],
            },
        },
    },
    "domain": "acme.example",
    "customDomains": [{"dnsName": "code.acme.example", "primary": True}],
    "instanceFeatures": {"enable_${x}": "a"},
}


def render(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> Configuration:
    return configuration(
        "prod", "acme", InstanceTerraformSpec.model_validate(spec), annotations or {}
    )


def module_of(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = render(spec, annotations).document["module"]["instance"]
    return found


def with_module(**module: object) -> dict[str, Any]:
    return {
        "infrastructure": {"terraform": {"module": {"source": "acme/instance/google", **module}}}
    }


def plain(**infrastructure: object) -> dict[str, Any]:
    gke = {"blue": {"machineType": "e2-small"}}
    gcp = {"zone": "us-central1-f", "gke": gke}
    return {"infrastructure": {"gcp": gcp, "terraform": {}, **infrastructure}}


def test_a_module_receives_everything_that_is_set() -> None:
    annotations = {CLOUDSQL_MODE: "bluePrimary", ENABLE_CMEK: "true", CMEK_ALGORITHM: "RSA"}
    assert module_of(FULL, annotations) == {
        "source": "app.terraform.io/acme/instance/google",
        "version": "~> 2.0",
        "instance_name": "acme",
        "zone": "europe-west1-b",
        "project_id": "acme-prod",
        "blue_machine_type": "n2-standard-8",
        "blue_additional_oauth_scopes": ["https://www.googleapis.com/auth/drive"],
        "green_machine_type": "n2-standard-16",
        "green_additional_oauth_scopes": [],
        "domain": "acme.example",
        "custom_domains": [{"dns_name": "code.acme.example", "primary": True}],
        "private_code_host": {
            "enabled": True,
            "aws": {
                "account_id": "123456789012",
                "region": "eu-west-1",
                "high_available": False,
                "private_links": [
                    {"endpoint": "svc-1", "ports": [443], "private_dns_enabled": False}
                ],
            },
        },
        "private_dns": {
            "routes": [{"source": "corp.", "destination": "vpc-1", "resolver_ip": "10.0.0.2"}]
        },
        "instance_features": {"enable_$${x}": "a"},
        "cloudsql_mode": "bluePrimary",
        "enable_cmek": True,
        "cmek_algorithm": "RSA",
        "size": 3,
        "script": "echo $${HOME} %%{if}",
    }


def test_what_is_not_set_is_left_to_the_module() -> None:
    assert module_of(with_module()) == {"source": "acme/instance/google", "instance_name": "acme"}


def test_outputs_and_versions() -> None:
    document = render(FULL).document
    assert document["terraform"] == {"required_version": "~> 1.9"}
    assert document["output"] == {
        "project_id": {"value": "${module.instance.project_id}"},
        "kubeconfig": {"value": "${module.instance.kubeconfig}", "sensitive": True},
    }
    assert render(FULL).outputs == {"project_id", "kubeconfig"}
    assert render(FULL).sensitive == {"kubeconfig"}


def test_clusters_are_rendered_as_they_are_without_a_module() -> None:
    document = render(plain()).document
    assert document["terraform"]["required_providers"]["google"]["source"] == "hashicorp/google"
    cluster = document["resource"]["google_container_cluster"]["blue"]
    assert cluster["name"] == "prod-acme-02f0b798d2dbc0eb3436-blue"
    assert cluster["location"] == "us-central1-f"
    pool = document["resource"]["google_container_node_pool"]["blue"]
    assert pool["node_config"]["machine_type"] == "e2-small"
    assert pool["node_config"]["oauth_scopes"] == ["https://www.googleapis.com/auth/cloud-platform"]
    assert document["output"]["region"] == {"value": "us-central1"}
    assert render(plain()).sensitive == {"kubeconfig"}


@pytest.mark.criterion("H-B1")
def test_h_b1_clusters_of_two_instances_of_one_name_have_two_names() -> None:
    """Google takes 40 characters, and one name once in a zone of a project."""
    spec = InstanceTerraformSpec.model_validate(plain())
    names = set()
    for namespace in ("a" * 63, "b" * 63):
        document = configuration(namespace, "acme", spec, {}).document
        cluster = document["resource"]["google_container_cluster"]["blue"]
        assert len(cluster["name"]) <= 40
        names.add(cluster["name"])
    assert len(names) == 2


def test_both_clusters() -> None:
    gke = {"blue": {"machineType": "a"}, "green": {"machineType": "b"}}
    spec = plain(gcp={"zone": "us-central1-f", "projectId": "p", "gke": gke})
    document = render(spec).document
    assert set(document["resource"]["google_container_cluster"]) == {"blue", "green"}
    assert document["provider"]["google"] == {"zone": "us-central1-f", "project": "p"}
    assert render(spec).sensitive == {"kubeconfig", "kubeconfig_green"}


@pytest.mark.parametrize(
    ("spec", "annotations", "says"),
    [
        ({"infrastructure": {"terraform": {}}}, {}, "nothing to build"),
        (
            plain(privateCodeHost={"enabled": True}),
            {},
            "a private code host takes a Terraform module",
        ),
        (plain(), {CLOUDSQL_MODE: "blueOnly"}, "CMEK or Cloud SQL takes a Terraform module"),
        (with_module(), {CLOUDSQL_MODE: "purple"}, "purple is none of blueOnly"),
        (with_module(), {ENABLE_CMEK: "yes"}, "yes is neither true nor false"),
        (with_module(inputs={"count": 1}), {}, "count cannot be the name"),
        (with_module(inputs={"instance_name": "x"}), {}, "instance_name is set from"),
        (with_module(outputs=["a-${b}"]), {}, "is no name of an output"),
    ],
)
def test_what_cannot_be_rendered_is_rejected(
    spec: dict[str, Any], annotations: dict[str, str], says: str
) -> None:
    with pytest.raises(TaskRejected) as caught:
        render(spec, annotations)
    assert says in str(caught.value)


def test_the_same_spec_gives_the_same_bytes() -> None:
    shuffled = {key: FULL[key] for key in reversed(FULL)}
    first, second = (archive(render(spec).files()) for spec in (FULL, shuffled))
    assert first == second
    assert first[4:8] == bytes(4)  # the time in the head of a gzip file
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(first))) as tar:
        [member] = tar.getmembers()
        assert (member.name, member.mtime, member.mode, member.uid) == ("main.tf.json", 0, 0o644, 0)
        content = tar.extractfile(member)
        assert content is not None
        assert json.load(content) == render(FULL).document


def test_texts_and_keys_are_literals() -> None:
    given = {"${a}": ["%{if}", "$${b}", 1, None, True]}
    assert literal(given) == {"$${a}": ["%%{if}", "$$${b}", 1, None, True]}


def test_an_output_that_either_side_calls_sensitive_is_secret() -> None:
    found = [
        Output(name="a", value=["x", 1], sensitive=False),
        Output(name="b", value="text", sensitive=True),
        Output(name="c", value="text", sensitive=False),
        Output(name="none", value=None, sensitive=False),
        Output(name="unwanted", value="text", sensitive=False),
    ]
    outputs = split(found, frozenset({"a", "b", "c", "none"}), frozenset({"c"}))
    assert outputs.plain == {"a": '["x",1]'}
    assert outputs.secret == {"b": "text", "c": "text"}
    assert "text" not in repr(found[1])
    assert "text" not in repr(outputs)
