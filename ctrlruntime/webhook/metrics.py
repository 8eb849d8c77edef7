"""Metrics of webhooks and certificates, with controller-runtime's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["CertificateMetrics", "WebhookMetrics"]

LATENCY_BUCKETS = tuple(1e-8 * 10**power for power in range(12))


class CertificateMetrics:
    """``certwatcher_*``: how often a certificate was read from disk, and how often in vain."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reads = Counter(
            "certwatcher_read_certificate", "Certificate reads.", registry=registry
        )
        self.errors = Counter(
            "certwatcher_read_certificate_errors", "Certificate reads that failed.",
            registry=registry,
        )  # fmt: skip


class WebhookMetrics:
    """``controller_runtime_webhook_*``; ``webhook`` is the path."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "controller_runtime_"
        self._latency = Histogram(
            f"{prefix}webhook_latency_seconds", "Length of a webhook call.", ["webhook"],
            buckets=LATENCY_BUCKETS, registry=registry,
        )  # fmt: skip
        self._requests = Counter(
            f"{prefix}webhook_requests", "Webhook calls by HTTP status.", ["webhook", "code"],
            registry=registry,
        )  # fmt: skip
        self._in_flight = Gauge(
            f"{prefix}webhook_requests_in_flight", "Webhook calls being answered.", ["webhook"],
            registry=registry,
        )  # fmt: skip
        self.panics = Counter(
            f"{prefix}webhook_panics", "Exceptions in admission handlers.", registry=registry
        )
        self.conversion_panics = Counter(
            f"{prefix}conversion_webhook_panics", "Exceptions in conversions.", registry=registry
        )

    def prepare(self, path: str) -> None:
        """Make the series of a path, with 0."""
        for code in ("200", "500"):
            self._requests.labels(path, code)
        self._in_flight.labels(path)
        self._latency.labels(path)

    def began(self, path: str) -> None:
        self._in_flight.labels(path).inc()

    def ended(self, path: str, code: int, seconds: float) -> None:
        self._in_flight.labels(path).dec()
        self._requests.labels(path, str(code)).inc()
        self._latency.labels(path).observe(seconds)
