"""Texts of /metrics as kube-scheduler writes them: histograms and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
POINT = "scheduler_framework_extension_point_duration_seconds"
PLUGIN = "scheduler_plugin_execution_duration_seconds"
ATTEMPT_BOUNDS = tuple(0.001 * 2**i for i in range(15))
POINT_BOUNDS = tuple(0.0001 * 2**i for i in range(12))
PLUGIN_BOUNDS = tuple(0.00001 * 1.5**i for i in range(20))


def write_sample(name: str, value: float, /, **labels: str) -> str:
    written = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{written}}} {value}\n" if labels else f"{name} {value}\n"


def write_histogram(name: str, bounds: Sequence[float], observed: Mapping[float, int], /, **labels: str) -> str:
    """Return a histogram; `observed` has the number of observations per value."""
    below = {f"{bound:.10g}": sum(n for value, n in observed.items() if value <= bound) for bound in bounds}
    lines = [write_sample(f"{name}_bucket", n, **labels, le=bound) for bound, n in below.items()]
    count = sum(observed.values())
    lines.append(write_sample(f"{name}_bucket", count, **labels, le="+Inf"))
    lines.append(write_sample(f"{name}_sum", sum(value * n for value, n in observed.items()), **labels))
    return "".join((*lines, write_sample(f"{name}_count", count, **labels)))


def write_attempts(observed: Mapping[float, int], result: str = "scheduled", profile: str = "default-scheduler") -> str:
    counted = write_sample("scheduler_schedule_attempts_total", sum(observed.values()), result=result, profile=profile)
    return write_histogram(ATTEMPT, ATTEMPT_BOUNDS, observed, result=result, profile=profile) + counted


def write_extension_point(name: str, observed: Mapping[float, int]) -> str:
    return write_histogram(
        POINT, POINT_BOUNDS, observed, extension_point=name, profile="default-scheduler", status="Success"
    )


def write_plugin(name: str, at: str, observed: Mapping[float, int]) -> str:
    return write_histogram(PLUGIN, PLUGIN_BOUNDS, observed, plugin=name, extension_point=at, status="Success")


def write_queues(**lengths: float) -> str:
    return "".join(write_sample("scheduler_pending_pods", length, queue=queue) for queue, length in lengths.items())
