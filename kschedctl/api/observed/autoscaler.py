"""How the Cluster Autoscaler of a cluster runs: the flags of its container, as far as they decide what it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kschedctl.api.decoding import from_builtins
from kschedctl.api.json_values import JsonObject, object_at

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


class _Container(msgspec.Struct, frozen=True):
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        return (*(self.command or ()), *(self.args or ()))


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] | None = None


class _Template(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class _OwnerSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] | None = None
    template: _Template | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class ContainerOwner(msgspec.Struct, frozen=True):
    """A workload or a pod, as far as its containers' command lines go."""

    kind: str = ""
    metadata: _Meta = _Meta()
    spec: _OwnerSpec = _OwnerSpec()


def autoscaler_in(owners: Iterable[ContainerOwner], kind: str = "") -> AutoscalerInstance | None:
    """The Cluster Autoscaler that one of these runs; ``kind``: of those that do not say theirs."""
    for owner in owners:
        template = owner.spec.template.spec.containers if owner.spec.template else None
        for container in (*(owner.spec.containers or ()), *(template or ())):
            if _is_autoscaler(container):
                where = f"{owner.kind or kind} {owner.metadata.namespace}/{owner.metadata.name}"
                return AutoscalerInstance(where, _tag(container.image), _flags(container.words))
    return None


def autoscaler_of(document: JsonObject) -> AutoscalerInstance | None:
    """The Cluster Autoscaler that a document describes, if it does."""
    if document.get("kind") not in OWNERS:
        return None
    spec = object_at(document, "spec")
    if not any(PROGRAM in str(c) for s in (spec, object_at(spec, "template", "spec")) for c in _containers(s)):
        return None
    try:
        return autoscaler_in([from_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # what is wrong with it is said where it is read as what it is


def without_names(instance: AutoscalerInstance) -> AutoscalerInstance:
    """How it runs, less what names somebody's own."""
    flags = {name: values for name, values in instance.flags.items() if name not in NAMING}
    return AutoscalerInstance("", instance.version, flags)


def _containers(spec: JsonObject) -> Iterable[object]:
    containers = spec.get("containers")
    return containers if isinstance(containers, list) else ()


def _is_autoscaler(container: _Container) -> bool:
    repository = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    program = container.words[0].rpartition("/")[2] if container.words else ""
    return repository.startswith(PROGRAM) or program == PROGRAM


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _flags(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The flags that decide, with all their values."""
    given: dict[str, list[str]] = {}
    for name, value in _spelt(words):
        if name in FLAGS and len(given.setdefault(name, [])) < MOST_VALUES:
            given[name].append(value[:MOST_OF_A_VALUE])
    return {name: tuple(values) for name, values in given.items()}


def _spelt(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """``--name=value``, ``--name value``, and ``--name`` of switches."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            yield name, value if equals else "true" if name in SWITCHES else following
