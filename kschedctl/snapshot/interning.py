"""Pods that are alike in all that scheduling reads are found, and share one PodInfo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec
import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Ints
from kschedctl.api.objects import Pod, PodSpec, PodStatus, Volume
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable
from kschedctl.snapshot.pod_info import PodInfo

_encode = msgspec.msgpack.Encoder().encode
_spec_parts = attrgetter(*(name for name in PodSpec.__struct_fields__ if name != "node_name"))
_status_parts = attrgetter(*(name for name in PodStatus.__struct_fields__ if name != "start_time"))


class Interner:
    """Gives each pod the number of its info in ``infos``, which grows. ``stored``: a pod as the API server has it."""

    def __init__(self, stored: Callable[[Pod], Pod], options: Options) -> None:
        self.infos: list[PodInfo] = []
        self._stored, self._options = stored, options
        self._known: dict[bytes, int] = {}
        self._same: dict[tuple[object, ...], int] = {}
        self._alike: dict[bytes, int] = {}

    def numbers(self, pods: Sequence[Pod]) -> Ints:
        """(P,): the number of each pod's info."""
        if isinstance(pods, PodTable):
            return self._intern_table(pods)
        return np.array([self._intern(pod) for pod in pods], np.int32)

    def _add(self, pod: Pod, unnamed: bytes | None = None) -> None:
        number = alike = len(self.infos)
        if pod.spec.resource_claims:
            alike = self._alike.setdefault(unnamed or _encode(_unnamed(pod)), number)
        self.infos.append(PodInfo(self._stored(pod), self._options, number, alike))

    def _intern_table(self, table: PodTable) -> Ints:
        """(P,): the index of each pod's info. One pod is looked at for all that share a template."""
        bound = np.array([bool(name) for name in table.node.values], np.bool_)[table.node.codes]
        kinds = table.template.astype(np.int64) * 2 + bound
        named = np.array([_is_named(template.spec) for template in table.templates], np.bool_)[table.template]
        kinds[named] = 2 * len(table.templates) + np.arange(int(named.sum()))
        _, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
        info = np.empty(len(first), np.int32)
        for kind in np.argsort(first).tolist():
            info[kind] = len(self.infos)
            self._add(table[int(first[kind])])
        return info[inverse]

    def _intern(self, pod: Pod) -> int:
        """The index of the pod's info. Pods of which all parts are the very same objects are not looked at again."""
        meta, spec, status = pod.metadata, pod.spec, pod.status
        if spec.resource_claims or spec.volumes:
            return self._intern_by_value(pod)
        deleted, bound = meta.deletion_timestamp is not None, bool(spec.node_name)
        parts = map(id, (meta.labels, *_spec_parts(spec), *_status_parts(status)))
        key = (meta.namespace, deleted, bound, *parts)
        position = self._same.get(key)
        if position is None:
            position = self._same[key] = self._intern_by_value(pod)
        return position

    def _intern_by_value(self, pod: Pod) -> int:
        """The index of the pod's info, made when no pod like it was seen before."""
        unnamed = _encode(_unnamed(pod))
        position = self._known.setdefault(unnamed + _encode(_names(pod)), len(self.infos))
        if position == len(self.infos):
            self._add(pod, unnamed)
        return position


def _unnamed(pod: Pod) -> tuple[object, ...]:
    """What scheduling reads of a pod besides the names of its resource claims, and its own where it matters."""
    spec, status = pod.spec, pod.status
    volumes = tuple(volume for volume in spec.volumes if volume != Volume(volume.name))
    return (
        pod.metadata.namespace,
        pod.metadata.labels,
        pod.metadata.deletion_timestamp is not None,
        replace(spec, node_name="", volumes=volumes, resource_claims=()),
        [claim.name for claim in spec.resource_claims],
        bool(spec.node_name),
        status.container_statuses,
        status.init_container_statuses,
        status.resources,
        status.allocated_resources,
        status.node_allocatable_resource_claim_statuses,
        [c.reason for c in status.conditions if c.type == "PodResizePending"],
        status.extended_resource_claim_status,
        (pod.metadata.name, pod.metadata.uid) if _has_volumes_of_its_own(spec) else None,
    )


def _names(pod: Pod) -> tuple[object, ...]:
    """The rest: which resource claims they are, and the pod, for which they may have been made."""
    claims = pod.spec.resource_claims
    whose = (pod.metadata.name, pod.metadata.uid) if claims else None
    return claims, pod.status.resource_claim_statuses, whose


def _is_named(spec: PodSpec) -> bool:
    """Whether claims may have been made for the very pod, by its name."""
    return bool(spec.resource_claims) or _has_volumes_of_its_own(spec)


def _has_volumes_of_its_own(spec: PodSpec) -> bool:
    return any(volume.ephemeral for volume in spec.volumes)
