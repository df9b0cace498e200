"""Pods of one template made to share what they have in common, which is a tenth of the memory.

It also makes pods that are alike quick to find: what they share are the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kschedctl.api.objects import Condition, Pod, PodSpec, PodStatus, Volume
from kschedctl.sources.documents.place import Place
from kschedctl.sources.quantities import check_quantities, pod_resources

T = TypeVar("T")
_TIME = re.compile(rb'TransitionTime"\s*:\s*"[^"]*"')
_REST = tuple(name for name in PodStatus.__struct_fields__ if name not in ("start_time", "conditions"))
_rest = attrgetter(*_REST)
_conditions = msgspec.json.Decoder(tuple[Condition, ...])
_as_json = msgspec.json.Encoder()


class Sharing:
    """Keeps one of each distinct part of the objects that it has seen."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._parts: dict[bytes, Any] = {}
        self._strings: dict[str, str] = {}
        self._statuses: dict[tuple[bytes, int], PodStatus] = {}
        self._timeless: dict[bytes, tuple[Condition, ...]] = {}

    def pod(self, pod: Pod, where: Callable[[], Place]) -> Pod:
        """An equal pod, less what nothing reads: volumes that do not matter, the times of a bound pod's conditions.

        Its conditions may be JSON still. Raises InputError for quantities, msgspec.ValidationError for conditions.
        """
        meta, spec, status = pod.metadata, pod.spec, pod.status
        meta = replace(
            meta,
            namespace=self._strings.setdefault(meta.namespace, meta.namespace),
            labels=self._part(meta.labels),
            owner_references=self._part(meta.owner_references),
        )
        return Pod(meta, self._spec(spec, where), self._status(status, bool(spec.node_name)))

    def _spec(self, spec: PodSpec, where: Callable[[], Place]) -> PodSpec:
        """Only the node's name is the pod's own."""
        node, volumes = spec.node_name, spec.volumes
        common = replace(spec, node_name="", volumes=tuple([v for v in volumes if v != Volume(v.name)]))
        key = self._encode(common)
        shared = self._parts.get(key)
        if shared is None:
            check_quantities(pod_resources(common), where)
            shared = self._parts[key] = common
        return replace(shared, node_name=self._strings.setdefault(node, node)) if node else shared

    def _status(self, status: PodStatus, bound: bool) -> PodStatus:
        """Only the time of the start, and before it is bound the conditions, are the pod's own."""
        conditions = self._conditions(status.conditions, bound)
        rest = _rest(status)
        key = self._encode(rest), id(conditions)
        shared = self._statuses.get(key)
        if shared is None:
            fields = dict(zip(_REST, rest, strict=True))
            shared = self._statuses[key] = PodStatus(conditions=conditions, **fields)
        return replace(shared, start_time=status.start_time) if status.start_time else shared

    def _conditions(self, conditions: msgspec.Raw | tuple[Condition, ...], bound: bool) -> tuple[Condition, ...]:
        """``bound``: without their times."""
        if not conditions:
            return ()
        data = conditions if isinstance(conditions, msgspec.Raw) else _as_json.encode(conditions)
        if not bound:
            return _conditions.decode(data)
        key = _TIME.sub(b'TransitionTime":null', data)
        found = self._timeless.get(key)
        if found is None:
            found = self._timeless[key] = _conditions.decode(key)
        return found

    def _part(self, part: T) -> T:
        shared: T = self._parts.setdefault(self._encode(part), part)
        return shared
