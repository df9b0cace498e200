"""The flags of the Cluster Autoscaler's container as options, with the defaults of its release.

Upstream: config/flags/flags.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.component_flags import AutoscalerInstance
from kschedctl.api.json_values import JsonObject

GIB = 1 << 30
RELEASE = 36
"""The minor version that is replayed."""
_FALSE = ("false", "0", "f")


def _parse_boolean(values: tuple[str, ...]) -> object:
    """Parse the last value of a flag as a boolean. Values other than false, 0 and f count as true."""
    return values[-1].lower() not in _FALSE


def _get_last_value(values: tuple[str, ...]) -> object:
    """Return the last value of a flag unchanged, because later values override earlier ones."""
    return values[-1]


def _parse_integer(values: tuple[str, ...]) -> object:
    """Parse the last value of a flag as an integer. Raises ValueError if it is not an integer."""
    return int(values[-1])


def _parse_float(values: tuple[str, ...]) -> object:
    """Parse the last value of a flag as a number. Raises ValueError if it is not a number."""
    return float(values[-1])


OPTIONS: Mapping[str, tuple[str, Callable[[tuple[str, ...]], object]]] = {
    "expander": ("expander", ",".join),
    "balance-similar-node-groups": ("balanceSimilarNodeGroups", _parse_boolean),
    "balancing-ignore-label": ("balancingIgnoreLabels", list),
    "balancing-label": ("balancingLabels", list),
    "scale-down-utilization-threshold": ("scaleDownUtilizationThreshold", _parse_float),
    "scale-down-gpu-utilization-threshold": ("scaleDownGpuUtilizationThreshold", _parse_float),
    "scale-down-unready-enabled": ("scaleDownUnreadyEnabled", _parse_boolean),
    "skip-nodes-with-system-pods": ("skipNodesWithSystemPods", _parse_boolean),
    "skip-nodes-with-local-storage": ("skipNodesWithLocalStorage", _parse_boolean),
    "skip-nodes-with-custom-controller-pods": ("skipNodesWithCustomControllerPods", _parse_boolean),
    "min-replica-count": ("minReplicaCount", _parse_integer),
    "blocking-system-pod-distruption-timeout": ("bspDisruptionTimeout", _get_last_value),
    "ignore-daemonsets-utilization": ("ignoreDaemonSetsUtilization", _parse_boolean),
    "ignore-mirror-pods-utilization": ("ignoreMirrorPodsUtilization", _parse_boolean),
    "new-pod-scale-up-delay": ("newPodScaleUpDelay", _get_last_value),
    "max-nodes-total": ("maxNodesTotal", _parse_integer),
    "max-nodes-per-scaleup": ("maxNodesPerScaleUp", _parse_integer),
    "max-scale-down-parallelism": ("maxScaleDownParallelism", _parse_integer),
    "max-drain-parallelism": ("maxDrainParallelism", _parse_integer),
    "expendable-pods-priority-cutoff": ("expendablePodsPriorityCutoff", _parse_integer),
    "force-ds": ("forceDaemonSets", _parse_boolean),
    "scale-up-from-zero": ("scaleUpFromZero", _parse_boolean),
    "scaleup-simulation-for-skipped-node-groups-enabled": ("scaleUpSimulationForSkippedNodeGroups", _parse_boolean),
    "status-taint": ("statusTaints", list),
}
"""Flag -> the option it sets and the parser of its values."""
WAIT_FLAGS = {
    "scale-down-unneeded-time": "10m",
    "scale-down-unready-time": "20m",
    "scale-down-delay-after-add": "10m",
}
"""Flags for how long nodes wait, with their defaults. A snapshot does not show how much of that time has passed."""
DEFAULTS_BEFORE: tuple[tuple[int, JsonObject], ...] = ((33, {"expander": "random", "bspDisruptionTimeout": "87600h"}),)
"""Minor version -> defaults before that version. Before 1.33, kube-system pods kept their nodes forever."""


class Flags(NamedTuple):
    """The parsed flags."""

    options: JsonObject
    """Options as in a ``--node-groups`` file."""
    groups: tuple[JsonObject, ...]
    """Node groups of the flag ``--nodes``."""
    faults: tuple[str, ...]
    """Descriptions of invalid values."""
    waits: Mapping[str, str]
    """Flag -> how long nodes wait."""


def parse_autoscaler_flags(instance: AutoscalerInstance | None) -> Flags:
    """Parse the flags of the autoscaler's instance into options, node groups and waiting times.

    Defaults of its release that differ from the defaults of 1.36 are included. Invalid values are left out and
    described as faults. Without an instance, there are no options and groups, and the waiting times are the defaults.
    """
    if instance is None:
        return Flags(options={}, groups=(), faults=(), waits=dict(WAIT_FLAGS))

    flag_values = instance.flags
    options: dict[str, object] = dict(_iter_older_defaults(instance))
    groups: list[JsonObject] = []
    faults: list[str] = []
    for name, values in flag_values.items():
        try:
            if name in OPTIONS:
                option, parse_values = OPTIONS[name]
                options[option] = parse_values(values)
            elif name == "nodes":
                groups += map(_parse_nodes_flag_value, values)
        except ValueError:
            faults.append(f"{instance.where}: --{name}={values[-1]}: invalid value")

    # Options that several flags set
    startup_taints = [*flag_values.get("startup-taint", ()), *flag_values.get("ignore-taint", ())]
    if startup_taints:
        options["startupTaints"] = startup_taints
    limits, limit_faults = _parse_resource_limits(flag_values)
    faults += limit_faults
    if limits:
        options["resourceLimits"] = limits

    waits = {name: flag_values[name][-1] if name in flag_values else default for name, default in WAIT_FLAGS.items()}
    return Flags(options=options, groups=tuple(groups), faults=tuple(faults), waits=waits)


def parse_minor_version(instance: AutoscalerInstance | None) -> int | None:
    """Return the minor version of the instance, such as 31 for ``v1.31.2``, or None if its version is unknown."""
    if instance is None:
        return None
    major, _, minor_and_patch = instance.version.removeprefix("v").partition(".")
    minor = minor_and_patch.partition(".")[0]
    return int(minor) if major == "1" and minor.isdecimal() else None


def _iter_older_defaults(instance: AutoscalerInstance | None) -> Iterator[tuple[str, object]]:
    """Yield the options whose defaults differ between the instance's release and 1.36, with the older defaults."""
    minor = parse_minor_version(instance)
    for since, options in DEFAULTS_BEFORE:
        if minor is not None and minor < since:
            yield from options.items()


def _parse_nodes_flag_value(text: str) -> JsonObject:
    """Parse a value of the flag ``--nodes``, of the form ``min:max:name``, to a node group.

    Raises ValueError if it has another form.
    """
    minimum, maximum, name = text.split(":", 2)
    return {"id": name, "min": int(minimum), "max": int(maximum)}


def _parse_resource_limits(flags: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, JsonObject], list[str]]:
    """Parse the cluster-wide limits on CPU cores, memory in bytes and GPUs, by resource or GPU type.

    Of several limits on cores or memory, the last one counts. Return the limits, and a description of each invalid
    value.
    """
    limit_texts: list[tuple[str, str]] = []
    # the last value of each flag, if it is set at all
    limit_texts += [("cpu", text) for text in flags.get("cores-total", ())[-1:]]
    limit_texts += [("memory", text) for text in flags.get("memory-total", ())[-1:]]
    for text in flags.get("gpu-total", ()):
        gpu_type, _, limits = text.partition(":")
        limit_texts.append((gpu_type, limits))
    limits_by_resource: dict[str, JsonObject] = {}
    faults = []
    for resource, text in limit_texts:
        unit = GIB if resource == "memory" else 1
        minimum, _, maximum = text.partition(":")
        if minimum.isdecimal() and maximum.isdecimal():
            limits_by_resource[resource] = {"min": int(minimum) * unit, "max": int(maximum) * unit}
        else:
            faults.append(f"limit of {resource}: {text}: expected MIN:MAX")
    return limits_by_resource, faults
