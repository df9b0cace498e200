"""Features of Kueue that Workloads use and that the replay does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.queueing import KueueWorkload
from kschedctl.text.counts import counted

_REPLACED_SLICE_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Upstream: WorkloadSliceReplacementFor in pkg/workloadslicing/workloadslicing.go."""


def iter_unreplayed_features(workloads: Iterable[KueueWorkload]) -> Iterator[str]:
    """Yield a sentence for each feature that is not replayed, with the Workloads that use it."""
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
    yield from _iter_sentences("preemption gates are not replayed", gated)
    yield from _iter_sentences("the replacement of failed nodes is not replayed", on_unhealthy_nodes)
    yield from _iter_sentences("the replacement of Workload slices is not replayed", slices)


def _iter_sentences(what: str, workloads: list[KueueWorkload]) -> Iterator[str]:
    """Yield a sentence if there are such Workloads."""
    if workloads:
        first = workloads[0].metadata
        others = f" and {counted(len(workloads) - 1, 'other')}" if len(workloads) > 1 else ""
        yield f"{what} (Workload {first.namespace}/{first.name}{others})"
