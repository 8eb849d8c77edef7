"""Topics of a message broker: finalizer, status and pause are the lifecycle's; what is written here is the work."""

from typing import Annotated

from pydantic import Field

from ctrlruntime import ApiModel, Builder, Conditions, Int32, Manager, Resource, Result
from ctrlruntime.lifecycle import Lifecycle, ObjectPass


class TopicSpec(ApiModel):
    """What the broker is asked for."""

    partitions: Annotated[Int32, Field(ge=1)] = 1


class TopicStatus(ApiModel):
    """What the broker has."""

    observed_generation: int = 0
    partitions: int = 0
    last_handled_reconcile: str = ""
    conditions: Conditions = Field(default_factory=list)


class Topic(Resource[TopicSpec, TopicStatus], group="broker.example.com", version="v1"):
    """A topic of the message broker."""


class Topics:
    """Keeps topics as they are wanted; `broker` has the partitions and the readers of each by name."""

    def __init__(self, broker: dict[str, int], readers: dict[str, int]) -> None:
        self.broker, self.readers = broker, readers

    async def ensure(self, topic: Topic, this: ObjectPass) -> Result | None:
        """Partitions are added and never taken away."""
        has = self.broker.get(this.entry.uid, 0)
        topic.status.partitions = max(has, topic.spec.partitions)
        self.broker[this.entry.uid] = topic.status.partitions
        if topic.spec.partitions < has:
            this.set_ready(topic, False, "CannotShrink", f"it has {has}; set spec.partitions to it")
        return None

    async def delete(self, topic: Topic, this: ObjectPass) -> Result | None:
        """Wait for its readers."""
        if self.readers.get(this.entry.uid):
            this.set_ready(topic, False, "InUse", "it is read; it is deleted once that ends")
            return Result(requeue_after=1)
        self.broker.pop(this.entry.uid, None)
        return None


def setup(manager: Manager, topics: Topics) -> None:
    """Add the controller."""
    finalizer = "broker.example.com/topic"
    life = Lifecycle(Topic, finalizer=finalizer, reconcile=topics.ensure, tear_down=topics.delete)
    Builder(manager).for_(Topic).build(life.reconciler(manager))
