"""What the flags of the Cluster Autoscaler's own container say, as options; and its defaults where they say nothing.

Upstream: config/flags/flags.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.json_values import JsonObject
from kschedctl.api.observed.autoscaler import AutoscalerInstance

GIB = 1 << 30
RELEASE = 36
"""The minor version that is replayed."""
_FALSE = ("false", "0", "f")


def _switch(values: tuple[str, ...]) -> object:
    return values[-1].lower() not in _FALSE


def _text(values: tuple[str, ...]) -> object:
    return values[-1]


def _number(values: tuple[str, ...]) -> object:
    return int(values[-1])


def _share(values: tuple[str, ...]) -> object:
    return float(values[-1])


def _all(values: tuple[str, ...]) -> object:
    return list(values)


OPTIONS: Mapping[str, tuple[str, Callable[[tuple[str, ...]], object]]] = {
    "expander": ("expander", ",".join),
    "balance-similar-node-groups": ("balanceSimilarNodeGroups", _switch),
    "balancing-ignore-label": ("balancingIgnoreLabels", _all),
    "balancing-label": ("balancingLabels", _all),
    "scale-down-utilization-threshold": ("scaleDownUtilizationThreshold", _share),
    "scale-down-gpu-utilization-threshold": ("scaleDownGpuUtilizationThreshold", _share),
    "scale-down-unready-enabled": ("scaleDownUnreadyEnabled", _switch),
    "skip-nodes-with-system-pods": ("skipNodesWithSystemPods", _switch),
    "skip-nodes-with-local-storage": ("skipNodesWithLocalStorage", _switch),
    "skip-nodes-with-custom-controller-pods": ("skipNodesWithCustomControllerPods", _switch),
    "min-replica-count": ("minReplicaCount", _number),
    "blocking-system-pod-distruption-timeout": ("bspDisruptionTimeout", _text),
    "ignore-daemonsets-utilization": ("ignoreDaemonSetsUtilization", _switch),
    "ignore-mirror-pods-utilization": ("ignoreMirrorPodsUtilization", _switch),
    "new-pod-scale-up-delay": ("newPodScaleUpDelay", _text),
    "max-nodes-total": ("maxNodesTotal", _number),
    "max-nodes-per-scaleup": ("maxNodesPerScaleUp", _number),
    "max-scale-down-parallelism": ("maxScaleDownParallelism", _number),
    "max-drain-parallelism": ("maxDrainParallelism", _number),
    "expendable-pods-priority-cutoff": ("expendablePodsPriorityCutoff", _number),
    "force-ds": ("forceDaemonSets", _switch),
    "scale-up-from-zero": ("scaleUpFromZero", _switch),
    "scaleup-simulation-for-skipped-node-groups-enabled": ("scaleUpSimulationForSkippedNodeGroups", _switch),
    "status-taint": ("statusTaints", _all),
}
"""Flag -> the option that it sets, and how its values are read."""
TIMES = {
    "scale-down-unneeded-time": "10m",
    "scale-down-unready-time": "20m",
    "scale-down-delay-after-add": "10m",
}
"""How long nodes wait, of which one look at a cluster cannot tell how much is over; with the defaults."""
DEFAULTS_BEFORE: tuple[tuple[int, JsonObject], ...] = ((33, {"expander": "random", "bspDisruptionTimeout": "87600h"}),)
"""Minor version -> what was so before it: before 1.33 pods of kube-system kept their nodes forever."""


class Flags(NamedTuple):
    """``options``: as ``--node-groups`` has them; ``groups``: of ``--nodes``; ``faults``: values that make no sense.

    ``waits``: how long nodes wait, by flag.
    """

    options: JsonObject
    groups: tuple[JsonObject, ...]
    faults: tuple[str, ...]
    waits: Mapping[str, str]


def read_flags(instance: AutoscalerInstance | None) -> Flags:
    """What the flags say, and the defaults of that release where they differ from those of 1.36."""
    given = instance.flags if instance else {}
    options: dict[str, object] = dict(_defaults(instance))
    groups: list[JsonObject] = []
    faults: list[str] = []
    for name, values in given.items():
        try:
            if name in OPTIONS:
                options[OPTIONS[name][0]] = OPTIONS[name][1](values)
            elif name == "nodes":
                groups += map(_group, values)
        except ValueError:
            faults.append(f"{instance.where if instance else ''}: --{name}={values[-1]}: not what the flag takes")
    startup = [*given.get("startup-taint", ()), *given.get("ignore-taint", ())]
    limits = dict(_limits(given, faults))
    options |= {"startupTaints": startup} if startup else {}
    options |= {"resourceLimits": limits} if limits else {}
    waits = {name: given[name][-1] if name in given else default for name, default in TIMES.items()}
    return Flags(options, tuple(groups), tuple(faults), waits)


def minor_of(instance: AutoscalerInstance | None) -> int | None:
    """31 of ``v1.31.2``; None where the image does not tell."""
    parts = instance.version.removeprefix("v").split(".") if instance else []
    return int(parts[1]) if len(parts) > 1 and parts[0] == "1" and parts[1].isdecimal() else None


def _defaults(instance: AutoscalerInstance | None) -> Iterator[tuple[str, object]]:
    minor = minor_of(instance)
    for since, options in DEFAULTS_BEFORE:
        if minor is not None and minor < since:
            yield from options.items()


def _group(text: str) -> JsonObject:
    """``min:max:name``. Raises ValueError."""
    least, most, name = text.split(":", 2)
    return {"id": name, "min": int(least), "max": int(most)}


def _limits(given: Mapping[str, tuple[str, ...]], faults: list[str]) -> Iterator[tuple[str, JsonObject]]:
    """The limits: cpu in cores, memory in bytes, GPUs by type."""
    texts = [("cpu", text, 1) for text in given.get("cores-total", ())[-1:]]
    texts += [("memory", text, GIB) for text in given.get("memory-total", ())[-1:]]
    texts += [(text.partition(":")[0], text.partition(":")[2], 1) for text in given.get("gpu-total", ())]
    for resource, text, unit in texts:
        least, colon, most = text.partition(":")
        if colon and least.isdecimal() and most.isdecimal():
            yield resource, {"min": int(least) * unit, "max": int(most) * unit}
        else:
            faults.append(f"limit of {resource}: {text}: want MIN:MAX")
