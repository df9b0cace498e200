"""Quantities that no object in a cluster can have, found while reading, so that the message can name the file.

What counts as impossible is what the snapshot cannot count: kschedctl/snapshot/pod_info.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from kschedctl.api.objects import (
    CoschedulingPodGroup,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PodMeta,
    PodSpec,
    Resources,
    RuntimeClass,
    VolcanoPodGroup,
)
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import QuantityError
from kschedctl.snapshot.pod_info import to_amounts
from kschedctl.sources.documents.place import Place

Found = Iterator[tuple[str, Resources]]


def check_quantities(written: Found, where: Callable[[], Place]) -> None:
    """Raises InputError that names the place and the field of the first quantity that is none, or too large."""
    for path, resources in written:
        for name, text in resources.items():
            try:
                _check(name, text)
            except QuantityError as error:
                at = f".{name}" if name.isidentifier() else f"[{name}]"
                raise where().error(error.what, path + at, hint=error.hint) from None


@lru_cache(maxsize=65536, typed=True)
def _check(name: str, text: str | int | float) -> None:
    to_amounts(parse_quantities({name: text}))


def pod_resources(spec: PodSpec) -> Found:
    """Path -> resources, of all that a pod asks for."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield f"spec.{field}[{index}].resources.requests", container.resources.requests
            yield f"spec.{field}[{index}].resources.limits", container.resources.limits
    if spec.resources is not None:
        yield "spec.resources.requests", spec.resources.requests
        yield "spec.resources.limits", spec.resources.limits
    yield "spec.overhead", spec.overhead


def _node(node: Node) -> Found:
    yield "status.allocatable", node.status.allocatable
    yield "status.capacity", node.status.capacity


def _claim(claim: PersistentVolumeClaim) -> Found:
    yield "spec.resources.requests", claim.spec.resources.requests


def _volume(volume: PersistentVolume) -> Found:
    yield "spec.capacity", volume.spec.capacity


def _runtime_class(runtime_class: RuntimeClass) -> Found:
    if runtime_class.overhead is not None:
        yield "overhead.podFixed", runtime_class.overhead.pod_fixed


def _min_resources(group: CoschedulingPodGroup | VolcanoPodGroup) -> Found:
    yield "spec.minResources", group.spec.min_resources or {}


RESOURCES: dict[str, Callable[[Any], Found]] = {
    "Pod": lambda pod: pod_resources(pod.spec),
    "Node": _node,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "RuntimeClass": _runtime_class,
    "CoschedulingPodGroup": _min_resources,
    "VolcanoPodGroup": _min_resources,
}
"""Kind -> where its objects hold quantities."""


def check_names(meta: ObjectMeta | PodMeta, where: Callable[[], Place], *, may_be_generated: bool) -> None:
    """Raises InputError for an object that has no name, and for names that no API server takes for any kind."""
    if not meta.name and not (may_be_generated and meta.generate_name):
        raise where().error("required", "metadata.name")
    for field, name in (("name", meta.name), ("namespace", meta.namespace)):
        if "/" in name:
            raise where().error(f'"{name[:253]}" may not contain "/"', f"metadata.{field}")


def check_made(names: Iterable[str]) -> None:
    """The names and namespaces in what programs made. Raises ValueError for one with a slash."""
    wrong = next((name for name in names if "/" in name), "")
    if wrong:
        raise ValueError(f'the name "{wrong[:253]}" contains "/"')
