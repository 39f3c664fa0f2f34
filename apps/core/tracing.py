"""Spans of requests and git processes, for OpenTelemetry. Nothing happens until `start`.

A span has the name of the operation or subcommand, its times, the status and the id of the request.
It knows no Django, and imports opentelemetry in `start` only.
"""

from __future__ import annotations

import atexit
import os
import time
from threading import Event, Thread
from typing import Any

from apps.git import run

PATIENCE = 2.0
"""Seconds that a process waits at its end until its last spans are sent."""

tracer: Any = None


def start() -> None:
    """Send spans from now on, as the variables `OTEL_…` say. Call it in each worker, after the
    fork: the thread that sends does not survive one.
    """
    os.environ.setdefault("OTEL_SERVICE_NAME", "guildhall")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    global tracer
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("guildhall")
    run.observers.append(record_git)
    send_rest_at_exit(provider)


def send_rest_at_exit(provider: Any) -> None:
    """Send the last spans at the end of the process, by a thread: the SDK itself would wait for a
    collector that does not answer longer than gunicorn waits for a worker.
    """
    ending, sent = Event(), Event()

    def send() -> None:
        ending.wait()
        provider.shutdown()
        sent.set()

    def wait() -> None:
        ending.set()
        sent.wait(PATIENCE)

    # Started now, because no thread can be started at exit.
    Thread(target=send, name="spans", daemon=True).start()
    atexit.register(wait)


def begin_request(request_id: str) -> Any:
    """A span that gits of this thread belong to, until another begins."""
    from opentelemetry import context, trace

    attributes = {"guildhall.request_id": request_id}
    # An empty context: the thread has answered other requests.
    span = tracer.start_span("request", context.Context(), attributes=attributes)
    context.attach(trace.set_span_in_context(span, context.Context()))
    return span


def end_request(span: Any, operation: str, status: int) -> None:
    span.update_name(operation)
    span.set_attribute("http.response.status_code", status)
    span.end()


def record_git(subcommand: str, seconds: float | None) -> None:
    """Record the span of a git that has ended."""
    if seconds is not None:
        begun = time.time_ns() - int(seconds * 1e9)
        tracer.start_span(f"git {subcommand}", start_time=begun).end()
