"""Types of infrastructure: the file, what an instance gets of its type, and what may not change."""

from __future__ import annotations

import pytest

from apis.cloud import Instance, TerraformSettings
from internal.cloud.tasks.settings import SettingsError
from internal.cloud.terraform_types import TerraformTypes, UnknownType, moved, parse_types

FILE = """
small:
  module: {source: registry.example.com/acme/small/google, version: "~> 2.0", inputs: {size: 1}, outputs: [ip]}
large:
  module: {source: registry.example.com/acme/large/google, sensitiveOutputs: [kubeconfig]}
  organization: acme
  address: https://tfe.example.com
  projectId: prj-1
  tokenFrom: {name: hcp, key: token}
  workspace: large-${namespace}-${instance}
  terraformVersion: 1.9.8
"""


def types(text: str = FILE) -> TerraformTypes:
    return TerraformTypes(parse_types(text))


def instance(name: str = "src-1", **terraform: object) -> Instance:
    return Instance.from_manifest(
        {
            "metadata": {"name": name, "namespace": "prod"},
            "spec": {"version": "5.1.0", "infrastructure": {"terraform": terraform}},
        }
    )


def settings(text: str = FILE, **terraform: object) -> TerraformSettings:
    found = types(text).settings_of(instance("src-1", **terraform))
    assert found is not None
    return found


@pytest.mark.criterion("TT-MAP")
def test_each_type_has_its_own_module_and_settings() -> None:
    small, large = settings(type="small"), settings(type="large")
    assert small.module is not None
    assert (small.module.source, small.module.version) == (
        "registry.example.com/acme/small/google",
        "~> 2.0",
    )
    assert (small.module.inputs, small.module.outputs) == ({"size": 1}, ["ip"])
    assert (small.organization, small.workspace) == (None, None)
    assert large.module is not None
    assert large.module.sensitive_outputs == ["kubeconfig"]
    assert (large.organization, large.address) == ("acme", "https://tfe.example.com")
    assert (large.project_id, large.terraform_version) == ("prj-1", "1.9.8")
    assert large.workspace == "large-prod-src-1"
    assert large.token_from is not None
    assert (large.token_from.name, large.token_from.key) == ("hcp", "token")
    assert large.type == "large"


@pytest.mark.criterion("TT-OWN")
def test_what_the_instance_sets_itself_counts() -> None:
    found = settings(
        type="large",
        organization="mine",
        workspace="given",
        address="https://other.example.com",
        module={"source": "./own"},
    )
    assert found.module is not None
    assert (found.module.source, found.organization) == ("./own", "mine")
    assert (found.workspace, found.address) == ("given", "https://other.example.com")
    assert found.project_id == "prj-1"


@pytest.mark.criterion("TT-DEFAULT")
def test_without_a_type_everything_is_as_the_spec_has_it() -> None:
    plain = instance(module={"source": "./own"})
    assert types().settings_of(plain) is plain.spec.infrastructure.terraform
    bare = Instance.from_manifest({"metadata": {"name": "x"}, "spec": {"version": "1"}})
    assert types().settings_of(bare) is None


@pytest.mark.criterion("TT-UNKNOWN")
def test_an_unknown_type_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UnknownType, match=r"no type 'huge'.*large, small.*--terraform-types-file"):
        settings(type="huge")
    with pytest.raises(UnknownType, match="manager has: none"):
        settings("", type="small")


def test_a_workspace_that_cannot_be_one_is_refused_for_that_instance() -> None:
    with pytest.raises(UnknownType, match=r"'large-prod-a\.b' of this type is no name"):
        types().settings_of(instance("a.b", type="large"))
    found = types().settings_of(instance("a.b", type="large", workspace="a-b"))
    assert found is not None
    assert found.workspace == "a-b"


@pytest.mark.criterion("TT-FILE")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("small: {}", "small.module"),
        ("small: {module: {source: ''}}", "small.module.source"),
        ("small: {module: {source: a}, modul: 1}", "small.modul"),
        ("small: {module: {source: a, versoin: 1}}", "small.module.versoin"),
        ("small: {module: {source: a, inputs: {count: 1}}}", "'count' cannot be the name"),
        ("small: {module: {source: a, outputs: [a-b]}}", "'a-b' is no name of an output"),
        ("small: {module: {source: a}, workspace: all}", r"it needs \$\{namespace\}"),
        (
            "small: {module: {source: a}, workspace: '${namespace}-${instance}-${version}'}",
            "version",
        ),
        ("small: {module: {source: a}, address: tfe}", "small.address"),
        ("[small]", "file"),
        ("small: {", "not YAML"),
    ],
)
def test_a_file_with_a_wrong_value_is_refused_and_the_place_named(text: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_types(text)


def test_changed_types_are_named() -> None:
    found = types()
    assert found.apply(parse_types(FILE)) == []
    assert found.apply(parse_types(FILE.replace("2.0", "3.0"))) == ["small"]
    assert found.apply({}) == ["large", "small"]


SMALL = TerraformSettings(type="small")
HCP = TerraformSettings(type="large", organization="acme", workspace="one")


@pytest.mark.criterion("TT-CHANGE")
@pytest.mark.parametrize(
    ("before", "wanted", "refused"),
    [
        (SMALL, TerraformSettings(type="medium"), False),
        (SMALL, HCP, True),
        (HCP, SMALL, True),
        (HCP, TerraformSettings(), True),
        (HCP, HCP.model_copy(update={"type": "larger"}), False),
        (HCP, HCP.model_copy(update={"workspace": "two"}), True),
        (HCP, HCP.model_copy(update={"organization": "other"}), True),
        (TerraformSettings(organization="acme"), HCP, True),
        (
            TerraformSettings(organization="acme"),
            HCP.model_copy(update={"workspace": "key"}),
            False,
        ),
        (TerraformSettings(), TerraformSettings(organization="acme"), False),
    ],
)
def test_only_what_would_have_its_state_elsewhere_is_refused(
    before: TerraformSettings, wanted: TerraformSettings, refused: bool
) -> None:
    found = moved(before, wanted, "key")
    assert bool(found) is refused
    if refused:
        assert "take the change of spec.infrastructure.terraform back" in found
