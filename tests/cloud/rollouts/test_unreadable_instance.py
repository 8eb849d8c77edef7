"""An instance that cannot be read is a member of its fleet that is not well, and stops no rollout."""

import orjson
import pytest

from apis.cloud import Instance
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.rollout import Health
from internal.cloud.rollouts.members import fleet_instance
from manager.controllers.terraform_types import type_of


@pytest.mark.criterion("S-F2")
def test_a_fleet_goes_on_beside_an_instance_nested_too_deep() -> None:
    metadata = orjson.dumps(
        {"name": "bad", "namespace": "a", "uid": "u", "resourceVersion": "1", "generation": 1}
    )
    deep = b'{"a":' * 1_500 + b"1" + b"}" * 1_500
    body = b'{"metadata":%b,"spec":{"values":%b},"status":{"version":"1.0"}}' % (metadata, deep)
    entry = EntryDecoder(Instance.gvk()).decode(body)
    found = fleet_instance(entry)
    assert (found.name, found.windows) == ("bad", ())
    assert found.health is not Health.READY
    assert type_of(entry) is None
