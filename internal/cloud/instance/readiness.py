"""Whether a subresource has carried out what is wanted of it now. Pure."""

from ctrlruntime.api import ApiModel, find_condition
from internal.cloud.content import content
from internal.cloud.instance.order import Object
from internal.cloud.taskdriver.inputs import inputs_of


def is_ready(child: Object, wanted: ApiModel) -> bool:
    """Ready for the current inputs: status and condition are of this generation, and these very
    inputs were the last to succeed. What was done for earlier ones does not count."""
    return content(child.spec) == content(wanted) and is_done(child)


def is_done(child: Object) -> bool:
    """Ready for the inputs that the object has, whatever they are."""
    metadata, status = child.metadata, child.status
    ready = find_condition(status.conditions, "Ready")
    return (
        metadata.deletion_timestamp is None
        and status.observed_generation == metadata.generation
        and ready is not None
        and ready.status == "True"
        and ready.observed_generation in (None, metadata.generation)
        and status.succeeded is not None
        and status.succeeded.inputs_version == inputs_of(child).version
    )
