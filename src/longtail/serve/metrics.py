"""The board in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from longtail.serve.board import BUCKETS, ENDPOINTS, STATUSES, Board

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(board: Board, version: str) -> bytes:
    """Sum the workers' counters and write them down."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class BoardCollector(Collector):
        def collect(self) -> Iterator[Metric]:
            return _families(board, version)

    registry = CollectorRegistry()
    registry.register(BoardCollector())
    return generate_latest(registry)


def _families(board: Board, version: str) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    rows = board.rows
    requests = CounterMetricFamily("longtail_requests", "Answered requests.", labels=["endpoint", "status"])
    for endpoint_id, endpoint in enumerate(ENDPOINTS):
        for status_id, status in enumerate([*map(str, STATUSES), "other"]):
            n_requests = int(rows["requests"][:, endpoint_id, status_id].sum())
            if n_requests:
                requests.add_metric([endpoint, status], n_requests)
    yield requests

    seconds = HistogramMetricFamily(
        "longtail_request_seconds", "Time from the request's arrival to its answer.", labels=["endpoint"]
    )
    for endpoint_id, endpoint in enumerate(ENDPOINTS):
        counts = rows["buckets"][:, endpoint_id].sum(axis=0).cumsum().tolist()
        if counts[-1]:
            edges = [*map(str, BUCKETS), "+Inf"]
            total = float(rows["seconds"][:, endpoint_id].sum())
            seconds.add_metric([endpoint], list(zip(edges, counts, strict=True)), sum_value=total)
    yield seconds

    for name, text, column in (
        ("longtail_texts", "Texts that were tagged.", "texts"),
        ("longtail_reloads", "Models that took the place of an older one.", "reloads"),
        ("longtail_failed_reloads", "Models that could not be loaded.", "failed_reloads"),
    ):
        yield CounterMetricFamily(name, text, value=int(rows[column].sum()))
    yield GaugeMetricFamily(
        "longtail_in_flight", "Requests accepted and not yet answered.", value=int(rows["in_flight"].sum())
    )
    info = GaugeMetricFamily("longtail_model_info", "Always 1; the label is the model's version.", labels=["version"])
    info.add_metric([version], 1)
    yield info
