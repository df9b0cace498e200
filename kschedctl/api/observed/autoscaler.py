"""How the Cluster Autoscaler of a cluster runs: the flags of its container, as far as they decide what it does."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.observed.command_lines import ContainerOwner, may_run, spelt

PROGRAM = "cluster-autoscaler"
SWITCHES = frozenset(
    (
        *("balance-similar-node-groups", "scale-down-unready-enabled", "skip-nodes-with-system-pods"),
        *("skip-nodes-with-local-storage", "skip-nodes-with-custom-controller-pods", "ignore-daemonsets-utilization"),
        *("ignore-mirror-pods-utilization", "force-ds", "scale-up-from-zero", "scale-down-enabled"),
        "scaleup-simulation-for-skipped-node-groups-enabled",
    )
)
"""The flags that need no value."""
NAMING = frozenset(
    (
        *("nodes", "startup-taint", "ignore-taint", "status-taint", "balancing-label", "balancing-ignore-label"),
        *("gpu-total", "namespace"),
    )
)
"""The flags whose values are somebody's own names."""
FLAGS = SWITCHES | {
    *("expander", "scale-down-utilization-threshold", "scale-down-gpu-utilization-threshold"),
    *("scale-down-unneeded-time", "scale-down-unready-time", "min-replica-count", "new-pod-scale-up-delay"),
    *("blocking-system-pod-distruption-timeout", "max-nodes-total", "max-nodes-per-scaleup", "cloud-provider"),
    *("max-scale-down-parallelism", "max-drain-parallelism", "expendable-pods-priority-cutoff"),
    *("scale-down-delay-after-add", "cores-total", "memory-total", *NAMING),
}
"""Annotations that are kept: what decides how groups grow and shrink."""
MOST_VALUES, MOST_OF_A_VALUE = 1000, 4096
OWNERS = ("Deployment", "StatefulSet", "DaemonSet", "Pod")


class AutoscalerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """``where``: whose container it is; ``version``: the tag of its image; ``flags``: name -> all its values."""

    where: str
    version: str = ""
    flags: dict[str, tuple[str, ...]] = {}


def autoscaler_in(owners: Iterable[ContainerOwner], kind: str = "") -> AutoscalerInstance | None:
    """The Cluster Autoscaler that one of these runs; ``kind``: of those that do not say theirs."""
    for owner in owners:
        for container in owner.containers:
            if container.runs(PROGRAM):
                return AutoscalerInstance(owner.named(kind), container.tag, _flags(container.words))
    return None


def autoscaler_of(document: JsonObject) -> AutoscalerInstance | None:
    """The Cluster Autoscaler that a document describes, if it does."""
    if document.get("kind") not in OWNERS or not may_run(document, PROGRAM):
        return None
    try:
        return autoscaler_in([convert_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # what is wrong with it is said where it is read as what it is


def without_names(instance: AutoscalerInstance) -> AutoscalerInstance:
    """How it runs, less what names somebody's own."""
    flags = {name: values for name, values in instance.flags.items() if name not in NAMING}
    return AutoscalerInstance("", instance.version, flags)


def _flags(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The flags that decide, with all their values."""
    given: dict[str, list[str]] = {}
    for name, value in spelt(words, SWITCHES):
        if name in FLAGS and len(given.setdefault(name, [])) < MOST_VALUES:
            given[name].append(value[:MOST_OF_A_VALUE])
    return {name: tuple(values) for name, values in given.items()}
