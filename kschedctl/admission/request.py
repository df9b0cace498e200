"""An object on its way through admission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kschedctl.api import objects as api
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.objects import LimitRange, Namespace, Pod, ResourceQuota
from kschedctl.api.pod_requests import (
    Options,
    Quantities,
    aggregate_container_limits,
    compute_pod_requests,
    parse_quantities,
)
from kschedctl.cluster import Cluster, without_nulls

Writable = dict[str, Any]
"""JSON that is written to."""
FORBIDDEN, INVALID, NOT_FOUND, BAD, INTERNAL = "Forbidden", "Invalid", "NotFound", "BadRequest", None
CODES = {FORBIDDEN: 403, INVALID: 422, NOT_FOUND: 404, BAD: 400, INTERNAL: 500}
RESOURCES = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}
_ALONE = Options(use_status=False)


class NotAdmittedError(Exception):
    """``reason``: of the API, None for an internal error; ``message``: all that is said."""

    def __init__(self, reason: str | None, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(eq=False)
class AdmissionRequest:
    """``obj`` is what is written to; ``limit_ranges`` and ``quotas``: those of the namespace, in the order tried.

    ``name``: how errors name the object; ``changed``: what was changed, and by whom.
    """

    cluster: Cluster
    kind: str
    obj: Writable
    namespace: str
    limit_ranges: Sequence[LimitRange] = ()
    quotas: Sequence[ResourceQuota] = ()
    name: str = ""
    changed: list[str] = field(default_factory=list)

    @property
    def is_pod(self) -> bool:
        return self.kind == "Pod"

    @property
    def spec(self) -> Writable:
        """The spec, which is there from now on."""
        spec: Writable = self.obj.setdefault("spec", {})
        return spec

    @property
    def annotations(self) -> Writable:
        written: Writable = self.obj.get("metadata", {}).get("annotations") or {}
        return written

    def annotate(self, key: str, value: str) -> None:
        self.obj["metadata"].setdefault("annotations", {})[key] = value

    @property
    def containers(self) -> list[Writable]:
        return self.spec.get("containers") or []

    @property
    def init_containers(self) -> list[Writable]:
        return self.spec.get("initContainers") or []

    @cached_property
    def namespace_object(self) -> Namespace | None:
        return next(
            (namespace for namespace in self.cluster.namespaces if namespace.metadata.name == self.namespace), None
        )

    @property
    def namespace_annotations(self) -> dict[str, str]:
        return self.namespace_object.metadata.annotations if self.namespace_object else {}

    def on(self, plugin: str) -> str:
        """Who says that a plugin is on which is off by default, in brackets."""
        return f" ({plugin} is on: {self.cluster.api_server.told_by})"

    def forbidden(self, why: str) -> NotAdmittedError:
        """The error of a plugin that refuses the object."""
        return NotAdmittedError(FORBIDDEN, f'{self.resource} "{self.name}" is forbidden: {why}')

    @property
    def resource(self) -> str:
        """Plural of the kind, with its group where it has one."""
        group = str(self.obj.get("apiVersion", "")).rpartition("/")[0]
        plural = RESOURCES.get(self.kind, f"{self.kind.lower()}s")
        return f"{plural}.{group}" if group else plural

    def pod(self) -> Pod:
        """The pod as scheduling reads it."""
        return convert_builtins(without_nulls(self.obj), api.Pod)

    def totals(self, *, overhead: bool) -> tuple[Quantities, Quantities]:
        """What the pod as a whole requests, and its limits."""
        pod = self.pod()
        requests = compute_pod_requests(pod, _ALONE._replace(overhead=overhead))
        limits = aggregate_container_limits(pod.spec.containers, pod.spec.init_containers)
        if pod.spec.resources is not None:
            limits |= parse_quantities(pod.spec.resources.limits)
        if overhead:
            for name, amount in parse_quantities(pod.spec.overhead).items():
                if name in limits:
                    limits[name] = limits[name].add(amount)
        return requests, limits
