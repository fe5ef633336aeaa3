"""Counters in the text format of Prometheus."""

from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus

# Upper bounds in seconds of the histogram of durations.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What has happened since the server started."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By path and status."""
        self.buckets: Counter[float] = Counter()
        self.seconds = 0.0
        self.counters: Counter[str] = Counter()

    def count_request(self, path: str, status: HTTPStatus, seconds: float) -> None:
        """Count an answer and how long it took."""
        self.requests[path, status.value] += 1
        self.seconds += seconds
        for bound in BUCKETS:
            self.buckets[bound] += seconds <= bound

    def count_text(self, lines: int, characters: int) -> None:
        """Count what was translated."""
        self.counters["aiayn_lines_total"] += lines
        self.counters["aiayn_characters_total"] += characters

    def write(self, gauges: Mapping[str, float]) -> str:
        """Return all numbers, and some that hold at this moment."""
        lines = ["# TYPE aiayn_requests_total counter"]
        for (path, status), number in sorted(self.requests.items()):
            labels = f'path="{path}",status="{status}"'
            lines.append(f"aiayn_requests_total{{{labels}}} {number}")
        total = self.requests.total()
        lines.append("# TYPE aiayn_request_seconds histogram")
        for bound in BUCKETS:
            lines.append(f'aiayn_request_seconds_bucket{{le="{bound}"}} {self.buckets[bound]}')
        lines.append(f'aiayn_request_seconds_bucket{{le="+Inf"}} {total}')
        lines.append(f"aiayn_request_seconds_sum {self.seconds:.6f}")
        lines.append(f"aiayn_request_seconds_count {total}")
        for name in ("aiayn_lines_total", "aiayn_characters_total"):
            lines += [f"# TYPE {name} counter", f"{name} {self.counters[name]}"]
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "".join(f"{line}\n" for line in lines)
