"""What wakes pods that NodeResourcesFit or DynamicResources refused."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.resource_names import is_dra_extended, readable
from kschedctl.scheduler.framework.events import NODE, POD, ActionType
from kschedctl.studies.waking.ways.told import ADD, DELETE, UPDATE, Told, Waiting, listed

EITHER = ADD | UPDATE
NAMES_TOLD = "the pod is told the names of its generated claims"


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
    claims = _claims(waiting)
    own = f"claim {listed(claims, 'or')} is created or its status changes" if claims else ""
    freed = "any claim gives its devices back"
    yield Told("ResourceClaim", EITHER, f"{own}, or {freed}" if own else freed)
    yield Told(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, NAMES_TOLD)
    yield Told("DeviceClass", EITHER, "a DeviceClass is added or changed")
    yield Told("ResourceSlice", EITHER, "devices are published or change (ResourceSlice)")
    of_nodes = ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
    yield Told(NODE, of_nodes, "a node is added, or its labels or what it offers change")


def claims_appear(waiting: Waiting) -> Iterator[Told]:
    """Until all of its claims are there the pod is not tried."""
    if claims := _claims(waiting):
        all_there = "" if len(waiting.info.spec.resource_claims) == 1 else ", and then all of its claims are there"
        yield Told("ResourceClaim", ADD, f"claim {listed(claims, 'or')} is created{all_there}")
    if any(claim.resource_claim_name is None for claim in waiting.info.spec.resource_claims):
        yield Told(POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, NAMES_TOLD)


def _claims(waiting: Waiting) -> list[str]:
    """The pod's claims, as far as they have names yet."""
    told = {status.name: status.resource_claim_name for status in waiting.info.pod.status.resource_claim_statuses}
    names = [claim.resource_claim_name or told.get(claim.name) for claim in waiting.info.spec.resource_claims]
    return [f"{waiting.info.namespace}/{name}" for name in names if name]
