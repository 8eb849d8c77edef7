"""Spans of requests: an interceptor for the manager's client."""

from __future__ import annotations

from dataclasses import replace

from ctrlruntime.client.call import Call, Execute, Interceptor
from ctrlruntime.client.transport import Response
from ctrlruntime.tracing import Tracing


def request_spans(tracing: Tracing) -> Interceptor:
    """Put every call of a client into a span below the current one, that of the reconcile.

    The server receives it as ``traceparent`` and continues the trace where it exports spans itself.
    """

    async def intercept(call: Call, execute: Execute) -> Response:
        resource = call.mapping.resource
        attributes = {
            "k8s.verb": call.verb,
            "k8s.resource": f"{resource}/{call.subresource}" if call.subresource else resource,
            "k8s.namespace.name": call.namespace or "",
            "k8s.object.name": call.name or "",
        }
        with tracing.request(f"{call.verb} {resource}", attributes):
            headers = {**call.headers, "traceparent": tracing.carrier()}
            return await execute(replace(call, headers=headers))

    return intercept
