"""Work queue: deduplication, delays, priorities with ageing, retry limits.

``core`` is the pure data structure, ``queue`` its asyncio front, ``limiters`` the retry delays.
"""

from ctrlruntime.queue.core import Ageing, Item, Observer, QueueCore, Stats
from ctrlruntime.queue.queue import PriorityQueue, QueueShutDown
from ctrlruntime.queue.request import Request, RequestT

__all__ = [
    "Ageing",
    "Item",
    "Observer",
    "PriorityQueue",
    "QueueCore",
    "QueueShutDown",
    "Request",
    "RequestT",
    "Stats",
]
