"""NodeResourcesFit: what may give a pod the room that it lacks.

Upstream: plugins/noderesources/fit.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api import resource_names as names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import DeviceClass
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX
from kschedctl.scheduler.framework.events import ChangedObject
from kschedctl.scheduler.framework.extended_resources import find_backing_classes
from kschedctl.scheduler.plugins.helper.placed_pods import placed
from kschedctl.snapshot.demands import offered
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo

OWN_RESIZE_COUNTS = ByVersion(
    "whether any resize of the pod that waits counts for NodeResourcesFit's hint, not just of what it still asks for",
    (("", False), ("1.32", True)),
)


def after_pod_event(
    info: PodInfo, change: ChangedObject, view: Fork, *, resizes: bool, promised: bool, anyhow: bool
) -> bool:
    """Any pod that gives up its place makes room; one that is resized, of what it then asks less.

    ``resizes``: gate InPlacePodVerticalScaling; ``promised``: a node that a pod is promised is such a place too;
    ``anyhow``: as of OWN_RESIZE_COUNTS.
    """
    if change.new is None:
        return placed(change.old, promised)
    if not resizes:
        return False
    own = same_pod(change.new, info.pod)
    if own and anyhow:
        return True
    if not own and not change.new.spec.node_name:
        return False
    wanted = [name for name, amount in _requests(info).items() if amount]
    old, new = (_requests(PodInfo(pod, view.settings.requests)) for pod in (change.old, change.new))
    return any(old.get(name, 0) > new.get(name, 0) for name in wanted)


def after_node_change(info: PodInfo, change: ChangedObject, view: Fork, from_devices: bool) -> bool:
    """A node that is large enough, were it empty, and that is new or offers more of something than it did.

    ``from_devices``: gate DRAExtendedResource.
    """
    backed = find_backing_classes(view.objects) if from_devices else {}
    new = offered(change.new)
    requests = info.incoming_requests
    if new.get(names.PODS, 0) < 1 or any(_missing(requests, new, backed)):
        return False
    return change.old is None or _more(requests, offered(change.old), new, backed)


def after_device_class_event(info: PodInfo, change: ChangedObject, view: Fork) -> bool:
    """A DeviceClass that now backs an extended resource which the pod asks for."""
    class_: DeviceClass = change.new
    requests = info.amounts(info.options._replace(use_status=False, pod_level=True, dra_node_allocatable=False))
    if change.old is None:
        if f"{DEVICE_CLASS_PREFIX}{class_.metadata.name}" in requests:
            return True
    elif (change.old.spec.extended_resource_name or "") == (class_.spec.extended_resource_name or ""):
        return False
    return class_.spec.extended_resource_name in requests


def _requests(info: PodInfo) -> dict[str, int]:
    return info.amounts(info.options._replace(pod_level=True, dra_node_allocatable=False))


def _missing(requests: Mapping[str, int], offer: Mapping[str, int], backed: Mapping[str, object]) -> Iterator[str]:
    """The resources of which the pod asks for more than is offered; what devices back is looked for elsewhere."""
    for name, amount in requests.items():
        have = offer.get(name, 0)
        if amount > have and not (have <= 0 and name in backed):
            yield name


def _more(
    requests: Mapping[str, int], old: Mapping[str, int], new: Mapping[str, int], backed: Mapping[str, object]
) -> bool:
    if new.get(names.PODS, 0) > old.get(names.PODS, 0):
        return True
    wanted = [name for name, amount in requests.items() if amount > 0]
    return any(new.get(name, 0) > old.get(name, 0) or (new.get(name, 0) <= 0 and name in backed) for name in wanted)
