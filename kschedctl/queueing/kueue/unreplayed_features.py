"""Features of Kueue that Workloads use and that the replay does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.queueing import KueueWorkload
from kschedctl.text.counts import counted

_REPLACED_SLICE_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Upstream: WorkloadSliceReplacementFor in pkg/workloadslicing/workloadslicing.go."""


def iter_unreplayed_features(workloads: Iterable[KueueWorkload]) -> Iterator[str]:
    """Yield a sentence for each feature that unfinished Workloads use but that is not replayed."""
    gated: list[KueueWorkload] = []
    on_unhealthy_nodes: list[KueueWorkload] = []
    slices: list[KueueWorkload] = []
    for workload in workloads:
        if any(condition.type == "Finished" and condition.status == "True" for condition in workload.status.conditions):
            continue
        if workload.spec.preemption_gates:
            gated.append(workload)
        if workload.status.unhealthy_nodes:
            on_unhealthy_nodes.append(workload)
        if _REPLACED_SLICE_ANNOTATION in workload.metadata.annotations:
            slices.append(workload)
    for limitation, users in (
        ("preemption gates are not replayed", gated),
        ("the replacement of failed nodes is not replayed", on_unhealthy_nodes),
        ("the replacement of Workload slices is not replayed", slices),
    ):
        if users:
            yield _format_limitation(limitation, users)


def _format_limitation(limitation: str, workloads: list[KueueWorkload]) -> str:
    """Return the sentence about a limitation, with the first Workload that it concerns and the number of others."""
    first = workloads[0].metadata
    others = f" and {counted(len(workloads) - 1, 'other')}" if len(workloads) > 1 else ""
    return f"{limitation} (Workload {first.namespace}/{first.name}{others})"
