"""Metrics of the cache of nodes: sums over all sets, with no series per node."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from internal.cosmos.comet.failures import Failure

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
STATES = ("in_sync", "catching_up", "unreachable", "not_asked")
"""How a node is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionMetrics:
    """The series of one kind of question."""

    questions: Counter
    discarded: Counter
    seconds: Histogram
    errors: Mapping[Failure, Counter]

    def asked(self, seconds: float, failure: Failure | None) -> None:
        """Count a question."""
        self.questions.inc()
        self.seconds.observe(seconds)
        if failure is not None:
            self.errors[failure].inc()


class CacheMetrics:
    """The series of all questions in one registry. The label `question` is `status` or `disk`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.questions = Counter(
            "cosmos_cache_questions_total",
            "Questions to nodes that were answered or failed.",
            ("question",),
            registry=registry,
        )
        self.errors = Counter(
            "cosmos_cache_errors_total",
            "Questions to nodes without a useful answer, by reason.",
            ("question", "reason"),
            registry=registry,
        )
        self.discarded = Counter(
            "cosmos_cache_discarded_total",
            "Answers that were out of date when they came.",
            ("question",),
            registry=registry,
        )
        self.seconds = Histogram(
            "cosmos_cache_question_seconds",
            "Time from the turn of a question to its answer.",
            ("question",),
            registry=registry,
            buckets=SECONDS,
        )
        self.age = Gauge(
            "cosmos_cache_age_seconds",
            "Age of the oldest answer of a node; 0 without nodes.",
            registry=registry,
        )
        self.under_way = Gauge(
            "cosmos_cache_under_way", "Questions under way now.", registry=registry
        )
        self.waiting = Gauge(
            "cosmos_cache_waiting", "Questions that wait for their turn.", registry=registry
        )
        self.nodes = Gauge(
            "cosmos_cache_nodes",
            "Nodes that are asked, by what they last said.",
            ("state",),
            registry=registry,
        )

    def of(self, question: str) -> "QuestionMetrics":
        """Return the series of one kind of question."""
        return QuestionMetrics(
            questions=self.questions.labels(question),
            discarded=self.discarded.labels(question),
            seconds=self.seconds.labels(question),
            errors={failure: self.errors.labels(question, failure.value) for failure in Failure},
        )

    def read(
        self,
        *,
        age: Callable[[], float],
        under_way: Callable[[], float],
        waiting: Callable[[], float],
        nodes: Callable[[str], float],
    ) -> None:
        """Set the functions that are called at each scrape."""
        self.age.set_function(age)
        self.under_way.set_function(under_way)
        self.waiting.set_function(waiting)
        for state in STATES:
            self.nodes.labels(state).set_function(partial(nodes, state))
