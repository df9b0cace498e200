"""A create request on its way through admission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import drop_nulls
from kschedctl.api.objects import LimitRange, Namespace, Pod, ResourceQuota
from kschedctl.api.pod_requests import (
    Options,
    Quantities,
    aggregate_container_limits,
    compute_pod_requests,
    parse_quantities,
)
from kschedctl.cluster import Cluster

Writable = dict[str, Any]
"""A JSON object that may be modified in place."""
FORBIDDEN, INVALID, NOT_FOUND, BAD, INTERNAL = "Forbidden", "Invalid", "NotFound", "BadRequest", None
CODES = {FORBIDDEN: 403, INVALID: 422, NOT_FOUND: 404, BAD: 400, INTERNAL: 500}
RESOURCES = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}
_SPEC_OPTIONS = Options(use_status=False)


class NotAdmittedError(Exception):
    """An error for a denied request. ``reason`` is the API's reason, or None for an internal error."""

    def __init__(self, reason: str | None, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(eq=False)
class AdmissionRequest:
    """A create request that admission plugins read and change."""

    cluster: Cluster
    kind: str
    obj: Writable
    """The object, which plugins modify."""
    namespace: str
    limit_ranges: Sequence[LimitRange] = ()
    """The namespace's LimitRanges in the order in which they are applied."""
    quotas: Sequence[ResourceQuota] = ()
    """The namespace's quotas in the order in which they are checked."""
    name: str = ""
    """The name of the object in errors."""
    changed: list[str] = field(default_factory=list)
    """Descriptions of changes, each with its cause."""
    resource_defaults: list[str] = field(default_factory=list)
    """Those of the descriptions that are about requests and limits that LimitRanges set."""

    @property
    def is_pod(self) -> bool:
        """True if the object is a pod."""
        return self.kind == "Pod"

    @property
    def spec(self) -> Writable:
        """The spec, which is created if it is missing."""
        spec: Writable = self.obj.setdefault("spec", {})
        return spec

    @property
    def annotations(self) -> Writable:
        """The annotations of the object, or an empty dict if there are none. Use ``annotate`` to add one."""
        written: Writable = self.obj.get("metadata", {}).get("annotations") or {}
        return written

    def annotate(self, key: str, value: str) -> None:
        """Set the annotation ``key`` of the object to ``value``."""
        self.obj["metadata"].setdefault("annotations", {})[key] = value

    @property
    def containers(self) -> list[Writable]:
        """The containers of the pod."""
        return self.spec.get("containers") or []

    @property
    def init_containers(self) -> list[Writable]:
        """The init containers of the pod."""
        return self.spec.get("initContainers") or []

    @cached_property
    def namespace_object(self) -> Namespace | None:
        """The namespace of the request, or None if it is not known."""
        for namespace in self.cluster.namespaces:
            if namespace.metadata.name == self.namespace:
                return namespace
        return None

    @property
    def namespace_annotations(self) -> dict[str, str]:
        """The annotations of the namespace."""
        return self.namespace_object.metadata.annotations if self.namespace_object else {}

    def describe_optional_plugin(self, plugin: str) -> str:
        """Return a clause that says how we know that an optional plugin is enabled."""
        return f" ({plugin} is on: {self.cluster.api_server.told_by})"

    def build_denial_error(self, reason: str) -> NotAdmittedError:
        """Build the error with which a plugin denies the object for this reason."""
        return NotAdmittedError(FORBIDDEN, f'{self.resource} "{self.name}" is forbidden: {reason}')

    @property
    def resource(self) -> str:
        """The plural of the kind, followed by its API group unless it is the core group."""
        group = str(self.obj.get("apiVersion", "")).rpartition("/")[0]
        plural = RESOURCES.get(self.kind, f"{self.kind.lower()}s")
        return f"{plural}.{group}" if group else plural

    def decode_pod(self) -> Pod:
        """Decode the pod with the fields that scheduling reads."""
        return convert_builtins(drop_nulls(self.obj), api.Pod)

    def sum_pod_resources(self, *, overhead: bool) -> tuple[Quantities, Quantities]:
        """Return the total requests and the total limits of the pod.

        With ``overhead``, the pod's overhead is added to the requests, and to the limits of resources that have a
        limit.
        """
        pod = self.decode_pod()
        requests = compute_pod_requests(pod, _SPEC_OPTIONS._replace(overhead=overhead))
        limits = aggregate_container_limits(pod.spec.containers, pod.spec.init_containers)
        if pod.spec.resources is not None:
            limits |= parse_quantities(pod.spec.resources.limits)
        if overhead:
            for name, amount in parse_quantities(pod.spec.overhead).items():
                if name in limits:
                    limits[name] = limits[name].add(amount)
        return requests, limits
