"""What admission gives pods that are created, before their class of priority and their runtime do.

Defaults of LimitRanges, tolerations for nodes that go away, and what plugins add that somebody turned on. Several
LimitRanges of a namespace are gone through in random order upstream: here by name, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from kschedctl.admission import defaults, limit_ranger, node_selector, tolerations
from kschedctl.admission.admit import orders
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError, Writable
from kschedctl.api.copying import replace
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.objects import LimitRange, Pod, PodSpec, Toleration
from kschedctl.cluster import Cluster, without_nulls
from kschedctl.errors import InputError

CHANCE = "by chance, as any of several LimitRanges may come first:"
_ADDED = {
    "PodNodeSelector": node_selector.fill_in,
    "PodTolerationRestriction": tolerations.of_namespace,
    "ExtendedResourceToleration": tolerations.for_extended_resources,
}
"""Plugins that are off by default and change what schedulers read, in their order."""
MOST_WAYS = 3


class WorkloadNote(NamedTuple):
    """A sentence about how the pods of one workload are created."""

    workload: str
    """The workload's title, such as ``Deployment shop/web``."""
    text: str

    def __str__(self) -> str:
        """Return the note as ``Deployment shop/web: …``."""
        return f"{self.workload}: {self.text}"


class PodDefaults:
    """Pods with what admission gives all pods of their namespace; ``told``: what they got, once a workload."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.notes: list[WorkloadNote] = []
        self._plugins = [name for name in _ADDED if name in cluster.api_server.enabled_optional_plugins]
        self._ranges: dict[str, tuple[LimitRange, ...]] = {}
        self._known: dict[tuple[object, ...], Pod] = {}
        self._same: dict[tuple[str, bytes], Pod] = {}

    def fill_in(self, workload: str, pods: Iterable[Pod]) -> list[Pod]:
        """The pods as they would be stored; those of one template are looked at once.

        Raises InputError for what a plugin refuses.
        """
        filled: list[Pod] = []
        for pod in pods:
            own = pod.spec
            key = pod.metadata.namespace, id(own.containers), id(own.tolerations), id(own.node_selector)
            if key not in self._known:
                self._known[key] = self._alike(workload, pod)
            like = self._known[key].spec
            spec = replace(
                own,
                containers=like.containers,
                init_containers=like.init_containers,
                resources=like.resources,
                node_selector=like.node_selector,
                tolerations=like.tolerations,
            )
            filled.append(replace(pod, spec=spec))
        return filled

    def _alike(self, workload: str, pod: Pod) -> Pod:
        """The first filled in of bare pods of the same containers, of which alone it is told."""
        spec, namespace = pod.spec, pod.metadata.namespace
        if not (self._of(namespace) or self._plugins):
            return replace(pod, spec=self._patient(spec))
        parts = spec.containers, spec.init_containers, spec.resources, spec.node_selector, spec.tolerations
        same = namespace, msgspec.json.encode(parts)
        if same not in self._same:
            self._same[same] = self._filled(workload, pod)
        return self._same[same]

    def _patient(self, spec: PodSpec) -> PodSpec:
        """With the tolerations that every pod gets, unless it has such itself."""
        own, server = spec.tolerations, self.cluster.api_server
        if "DefaultTolerationSeconds" in server.disabled:
            return spec
        added = tuple(
            Toleration(key, "Exists", effect="NoExecute", toleration_seconds=seconds)
            for key, seconds in zip(
                tolerations.GOING, (server.not_ready_seconds, server.unreachable_seconds), strict=True
            )
            if not any(t.key in (key, "") and t.effect in ("NoExecute", "") for t in own)
        )
        return replace(spec, tolerations=(*own, *added)) if added else spec

    def _of(self, namespace: str) -> tuple[LimitRange, ...]:
        if namespace not in self._ranges:
            on = "LimitRanger" not in self.cluster.api_server.disabled
            limit_ranges = self.cluster.in_namespace("limit_ranges", namespace) if on else ()
            self._ranges[namespace] = tuple(map(limit_ranger.stored, limit_ranges))
        return self._ranges[namespace]

    def _filled(self, workload: str, pod: Pod) -> Pod:
        ranges = self._of(pod.metadata.namespace)
        made, request = self._passed(pod, ranges)
        if request.changed:
            self.notes.append(WorkloadNote(workload, "; ".join(request.changed)))
            if alternatives := self._alternatives(pod, ranges, made):
                self.notes.append(WorkloadNote(workload, f"{CHANCE} {' or '.join(alternatives)}"))
        return made

    def _alternatives(self, pod: Pod, ranges: tuple[LimitRange, ...], made: Pod) -> list[str]:
        """Return the changes that other orders of the LimitRanges would make; none if the order is irrelevant."""
        ways: dict[bytes, str] = {}
        for order in orders(ranges) if limit_ranger.differ(ranges) else ():
            other, request = self._passed(pod, order)
            ways.setdefault(msgspec.json.encode(other.spec), "; ".join(request.changed))
        if not ways.keys() - {msgspec.json.encode(made.spec)}:
            return []
        more = [f"{len(ways) - MOST_WAYS:,} more ways"] if len(ways) > MOST_WAYS else []
        return [*list(ways.values())[:MOST_WAYS], *more]

    def _passed(self, pod: Pod, ranges: Iterable[LimitRange]) -> tuple[Pod, AdmissionRequest]:
        obj: Writable = without_nulls(msgspec.to_builtins(replace(pod, spec=self._patient(pod.spec))))
        obj.setdefault("metadata", {})
        request = AdmissionRequest(
            self.cluster, "Pod", obj, pod.metadata.namespace, tuple(ranges), name=pod.metadata.name
        )
        defaults.fill_in(request)  # a limit is a request before LimitRanges give one
        limit_ranger.fill_in(request)
        try:
            for name in self._plugins:
                _ADDED[name](request)
        except NotAdmittedError as error:
            raise InputError(error.message) from None
        return convert_builtins(obj, Pod), request
