"""What LimitRanges give the containers of pods that are created, as the API server does before anybody schedules them.

Several LimitRanges of a namespace are gone through in random order upstream: here by name, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations

import msgspec

from kschedctl.admission import limit_ranger
from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.copying import replace
from kschedctl.api.decoding import from_builtins
from kschedctl.api.objects import LimitRange, Pod
from kschedctl.cluster import Cluster

CHANCE = "of several LimitRanges that differ, any may come first: other requests and limits are possible"


class LimitRangeDefaults:
    """Pods with the defaults of their namespace's LimitRanges; ``told``: what they got, once a workload."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: list[str] = []
        self._ranges: dict[str, tuple[LimitRange, ...]] = {}
        self._known: dict[tuple[str, int], Pod] = {}
        self._same: dict[tuple[str, bytes], Pod] = {}

    def fill_in(self, workload: str, pods: Iterable[Pod]) -> list[Pod]:
        """The pods as they would be stored; those of one template are looked at once."""
        filled: list[Pod] = []
        for pod in pods:
            namespace = pod.metadata.namespace
            if not self._of(namespace):
                filled.append(pod)
                continue
            key = namespace, id(pod.spec.containers)
            if key not in self._known:
                self._known[key] = self._alike(workload, pod)
            like = self._known[key].spec
            spec = replace(
                pod.spec, containers=like.containers, init_containers=like.init_containers, resources=like.resources
            )
            filled.append(replace(pod, spec=spec))
        return filled

    def _alike(self, workload: str, pod: Pod) -> Pod:
        """The first filled in of bare pods of the same containers, of which alone it is told."""
        spec = pod.spec
        same = pod.metadata.namespace, msgspec.json.encode((spec.containers, spec.init_containers, spec.resources))
        if same not in self._same:
            self._same[same] = self._filled(workload, pod)
        return self._same[same]

    def _of(self, namespace: str) -> tuple[LimitRange, ...]:
        if namespace not in self._ranges:
            limit_ranges = self.cluster.in_namespace("limit_ranges", namespace)
            self._ranges[namespace] = tuple(map(limit_ranger.stored, limit_ranges))
        return self._ranges[namespace]

    def _filled(self, workload: str, pod: Pod) -> Pod:
        ranges = self._of(pod.metadata.namespace)
        made, request = _passed(self.cluster, pod, ranges)
        if request.changed:
            self.told.append(f"{workload}: {'; '.join(request.changed)}")
            orders = [_passed(self.cluster, pod, order)[0] for order in permutations(ranges)] if len(ranges) < 5 else []
            if any(order.spec != made.spec for order in orders):
                self.told.append(f"{workload}: {CHANCE}")
        return made


def _passed(cluster: Cluster, pod: Pod, ranges: Iterable[LimitRange]) -> tuple[Pod, AdmissionRequest]:
    obj: Writable = msgspec.to_builtins(pod)
    request = AdmissionRequest(cluster, "Pod", obj, pod.metadata.namespace, tuple(ranges))
    obj.setdefault("metadata", {})
    limit_ranger.fill_in(request)
    return from_builtins(obj, Pod), request
