"""The flags of the Cluster Autoscaler that decide what it does, read from its container."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.observed.command_lines import ContainerOwner, iter_flags, may_run

PROGRAM = "cluster-autoscaler"
SWITCHES = frozenset(
    (
        *("balance-similar-node-groups", "scale-down-unready-enabled", "skip-nodes-with-system-pods"),
        *("skip-nodes-with-local-storage", "skip-nodes-with-custom-controller-pods", "ignore-daemonsets-utilization"),
        *("ignore-mirror-pods-utilization", "force-ds", "scale-up-from-zero", "scale-down-enabled"),
        "scaleup-simulation-for-skipped-node-groups-enabled",
    )
)
"""Flags that need no value."""
NAMING = frozenset(
    (
        *("nodes", "startup-taint", "ignore-taint", "status-taint", "balancing-label", "balancing-ignore-label"),
        *("gpu-total", "namespace"),
    )
)
"""Flags whose values are names chosen by users."""
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
    """The flags of one Cluster Autoscaler."""

    where: str
    """The object whose container it is."""
    version: str = ""
    """The tag of its image."""
    flags: dict[str, tuple[str, ...]] = {}
    """All values of each flag."""


def find_autoscaler(owners: Iterable[ContainerOwner], kind: str = "") -> AutoscalerInstance | None:
    """Return the first Cluster Autoscaler that one of the owners runs, or None.

    ``kind`` is the kind of owners that do not state theirs.
    """
    for owner in owners:
        for container in owner.containers:
            if container.runs(PROGRAM):
                return AutoscalerInstance(owner.describe(kind), container.tag, _parse_flags(container.words))
    return None


def read_autoscaler(document: JsonObject) -> AutoscalerInstance | None:
    """Return the Cluster Autoscaler that a document describes, or None."""
    if document.get("kind") not in OWNERS or not may_run(document, PROGRAM):
        return None
    try:
        return find_autoscaler([convert_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # what is wrong with it is said where it is read as what it is


def without_names(instance: AutoscalerInstance) -> AutoscalerInstance:
    """Return the settings without anything that identifies the cluster."""
    flags = {name: values for name, values in instance.flags.items() if name not in NAMING}
    return AutoscalerInstance("", instance.version, flags)


def _parse_flags(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return all values of the flags that matter."""
    values_by_flag: dict[str, list[str]] = {}
    for name, value in iter_flags(words, SWITCHES):
        if name in FLAGS and len(values_by_flag.setdefault(name, [])) < MOST_VALUES:
            values_by_flag[name].append(value[:MOST_OF_A_VALUE])
    return {name: tuple(values) for name, values in values_by_flag.items()}
