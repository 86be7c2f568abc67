"""Counters in Prometheus' text format."""

from __future__ import annotations

import re

from tasknorm.serve.metrics import Metrics

LINE = re.compile(r'[a-z_]+(\{([a-z]+="[^"]*",?)+\})? [-+0-9.e]+')


def test_counts_add_up_and_every_line_can_be_read() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.3, 99):
        metrics.request("GET", "/health", 200, seconds)
    metrics.batch(3)
    metrics.number("tasknorm_things", "Things.", lambda: 12345678)
    metrics.number("tasknorm_seen_total", "Seen.", lambda: 2)
    text = metrics.text()
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith(("# HELP tasknorm_", "# TYPE tasknorm_")) or LINE.fullmatch(line), line
    counts = [int(line.split()[-1]) for line in text.splitlines() if line.startswith("tasknorm_request_seconds_bucket")]
    assert counts == sorted(counts)  # cumulative
    assert counts[0] == 2  # a bound belongs to its bucket
    assert counts[-1] == 4
    assert 'tasknorm_requests_total{method="GET",route="/health",status="200"} 4' in text
    assert 'tasknorm_batch_images_bucket{le="4"} 1' in text
    assert "tasknorm_things 12345678\n" in text
    assert "# TYPE tasknorm_seen_total counter" in text
