"""What wakes pods that NodeResourcesFit or DynamicResources refused."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.resource_names import is_dra_extended, readable
from kschedctl.scheduler.queueing.events import NODE, POD, ActionType
from kschedctl.studies.waking.ways.told import ADD, DELETE, UPDATE, Told, Waiting, listed

EITHER = ADD | UPDATE


def node_resources_fit(waiting: Waiting) -> Iterator[Told]:
    requests = {name: amount for name, amount in waiting.info.incoming_requests.items() if amount > 0}
    asked = listed([f"{readable(name, amount)} {name}" for name, amount in requests.items()]) or "room for one more pod"
    of = listed(list(requests), "or") or "pods"
    yield Told(POD, DELETE, f"any pod leaves a node (this one fits where {asked} are free then)")
    yield Told(POD, ActionType.UPDATE_POD_SCALE_DOWN, f"a pod on a node, or the pod itself, comes to ask for less {of}")
    if waiting.changed_as_new:
        yield Told(NODE, ADD | UPDATE, f"a node is added, or changes, that offers {asked}")
    else:
        yield Told(NODE, ADD, f"a node is added that offers {asked}")
        more = f"a node comes to offer more {of}, and then {asked} in all"
        yield Told(NODE, ActionType.UPDATE_NODE_ALLOCATABLE, more)
    extended = [name for name in requests if is_dra_extended(name)]
    if extended:
        yield Told("DeviceClass", EITHER, f"a DeviceClass comes to back {listed(extended, 'or')}")


def dynamic_resources(waiting: Waiting) -> Iterator[Told]:
    claims = [claim.name for claim in waiting.info.spec.resource_claims]
    own = f"a claim of the pod ({', '.join(claims)}) is created or its status changes" if claims else ""
    freed = "any claim gives its devices back"
    yield Told("ResourceClaim", EITHER, f"{own}, or {freed}" if own else freed)
    yield Told(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, "the pod is told the names of its generated claims")
    yield Told("DeviceClass", EITHER, "a DeviceClass is added or changed")
    yield Told("ResourceSlice", EITHER, "devices are published or change (ResourceSlice)")
    of_nodes = ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    yield Told(NODE, of_nodes, "a node is added, or its labels or what it offers change")
