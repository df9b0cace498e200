"""The words for people that stand for a fact: a few of them, exact, in one unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kschedctl.api import resource_names as names
from kschedctl.scheduler.framework import facts
from kschedctl.scheduler.framework.facts import AnyFact, Wanted

TERMS_TOLD = 3
EXPRESSION_TOLD = 80


def words(fact: AnyFact | None) -> str:
    """What is said of a fact, nothing of none.

    >>> words(facts.Cordoned()), words(facts.TooManyPods(110, 110, nominated=True)), words(None)
    ('cordoned', '110 of 110 pods, counting the pods nominated for it', '')
    """
    if fact is None:
        return ""
    told = _WORDS[type(fact)](fact)
    return f"{told}, counting the pods nominated for it".removeprefix(", ") if fact.nominated else told


# -- the node itself -------------------------------------------------------------------------------------------------


def _insufficient(fact: facts.Insufficient) -> str:
    """
    >>> words(facts.Insufficient("cpu", requested=6000, free=2000, offered=8000, largest=8000))
    'cpu: 6 requested, 2 free of 8'
    >>> words(facts.Insufficient("cpu", requested=9000, free=2000, offered=4000, largest=8000))
    'cpu: 9 requested, 2 free of 4; no node is that large'
    """
    asked, free, offered = names.alike(fact.resource, fact.requested, fact.free, fact.offered)
    nowhere = "; no node is that large" if fact.largest else "; no node offers any"
    return f"{fact.resource}: {asked} requested, {free} free of {offered}{nowhere if fact.nowhere else ''}"


def _taint(fact: facts.UntoleratedTaint) -> str:
    """
    >>> words(facts.UntoleratedTaint("dedicated", "batch", "NoSchedule"))
    'taint dedicated=batch:NoSchedule is not tolerated'
    """
    return f"taint {fact.key}{'=' * bool(fact.value)}{fact.value}:{fact.effect} is not tolerated"


def _host_port(fact: facts.HostPortHeld) -> str:
    """
    >>> words(facts.HostPortHeld("TCP", 80, "0.0.0.0", "shop/web"))
    'TCP port 80 is held by shop/web'
    """
    if not fact.holder:
        return "the port is held by a nominated pod"
    return f"{fact.protocol} port {fact.port} is held by {fact.holder}"


def _node_affinity(fact: facts.NodeAffinityUnmet) -> str:
    """
    >>> words(facts.NodeAffinityUnmet((Wanted("disk", "In", ("ssd",), "hdd"), Wanted("gpu", "In", ("yes",)))))
    'disk=ssd wanted, hdd found; gpu=yes wanted, no such label found'
    >>> words(facts.NodeAffinityUnmet(terms=((Wanted("zone", "In", ("a", "b"), "c"), Wanted("pool", "Exists")),)))
    'zone In [a, b] wanted, c found and pool Exists wanted, no such label found'
    """
    if fact.selector:
        return "; ".join(f"{each.key}={each.values[0]} wanted, {_found(each)}" for each in fact.selector)
    unmet = [" and ".join(map(_unmet, term)) for term in fact.terms]
    more = f"; or one of {len(unmet) - TERMS_TOLD:,} more terms" if len(unmet) > TERMS_TOLD else ""
    told = "; or ".join(filter(None, unmet[:TERMS_TOLD]))
    return f"{told}{more}" if told else "no required node affinity term can match"


def _unmet(wanted: Wanted) -> str:
    values = f" [{', '.join(wanted.values)}]" if wanted.values else ""
    text = f"{wanted.key} {wanted.operator}{values} wanted"
    return text if wanted.field else f"{text}, {_found(wanted)}"


def _found(wanted: Wanted) -> str:
    return f"{'no such label' if wanted.found is None else wanted.found} found"


# -- other pods ------------------------------------------------------------------------------------------------------


def _too_skewed(fact: facts.TooSkewed) -> str:
    """
    >>> words(facts.TooSkewed("zone", "a", pods=1, fewest=0, skew=2, max_skew=1))
    'zone=a has 1 matching pod, the emptiest domain 0: skew would be 2, at most 1 is allowed'
    """
    pods = f"{fact.pods} matching pod{'s' * (fact.pods != 1)}"
    skew = f"skew would be {fact.skew}, at most {fact.max_skew} is allowed"
    return f"{fact.key}={fact.domain} has {pods}, the emptiest domain {fact.fewest}: {skew}"


def _no_pod_to_join(fact: facts.NoPodToJoin) -> str:
    """
    >>> words(facts.NoPodToJoin("app=db", "zone", "a")), words(facts.NoPodToJoin("", "zone", "a"))
    ('no pod matching app=db in zone=a', 'no pod matching anything in zone=a')
    >>> words(facts.NoPodToJoin(None, "zone", "a"))
    'a term without labelSelector matches no pod'
    """
    if fact.selector is None:
        return "a term without labelSelector matches no pod"
    return f"no pod matching {fact.selector or 'anything'} in {fact.key}={fact.domain}"


def _pod_in_the_way(fact: facts.PodInTheWay) -> str:
    """
    >>> words(facts.PodInTheWay("shop/web", 2, "zone", "a")), words(facts.PodInTheWay())
    ('shop/web and 2 more in zone=a', 'a nominated pod is in the same topology')
    """
    if not fact.pod:
        return "a nominated pod is in the same topology"
    return f"{fact.pod}{f' and {fact.others} more' * bool(fact.others)} in {fact.key}={fact.domain}"


# -- volumes ---------------------------------------------------------------------------------------------------------


def _too_many_volumes(fact: facts.TooManyVolumes) -> str:
    """
    >>> words(facts.TooManyVolumes((facts.DriverLimit("csi", attached=2, limit=2, more=1),)))
    'driver csi has 2 of 2 volumes attached, the pod brings 1 more'
    """
    return "; ".join(
        f"driver {each.driver} has {each.attached} of {each.limit} volumes attached, the pod brings {each.more} more"
        for each in fact.drivers
    )


def _unbound(claim: facts.UnboundClaim) -> str:
    """
    >>> words(facts.ClaimsUnbound((facts.UnboundClaim("shop/data", storage_class="fast"),)))
    'claim shop/data is not bound: its class fast does not exist'
    """
    name = claim.storage_class
    if claim.volume:
        why = f"it waits for PersistentVolume {claim.volume}"
    elif not claim.class_exists:
        why = f"its class {name} does not exist" if name else "it has no class and waits for a PersistentVolume"
    elif not claim.provisioner:
        why = f"it waits for a PersistentVolume of class {name}, which does not provision volumes"
    else:
        why = f"it waits for {claim.provisioner} to provision a volume of class {name}"
    return f"claim {claim.claim} is not bound: {why}"


def _out_of_reach(fact: facts.VolumeOutOfReach) -> str:
    """
    >>> words(facts.VolumeOutOfReach("pv1", "shop/data", (Wanted("zone", "In", ("a",), "b"),)))
    'PersistentVolume pv1 of claim shop/data wants zone In [a], the node has b'
    """
    wanted = (f"{each.key} {each.operator} [{', '.join(each.values)}], {_has(each)}" for each in fact.wanted)
    text = "; ".join(dict.fromkeys(wanted)) or "a node that cannot exist: its terms match nothing"
    return f"PersistentVolume {fact.volume} of claim {fact.claim} wants {text}"


def _no_volume(fact: facts.NoVolume) -> str:
    """
    >>> print(words(facts.NoVolume("a/data", "fast", "1Gi", 1 << 30, provisions=False)))
    no available PersistentVolume of class fast for claim a/data (1Gi wanted), and the class does not provision volumes
    """
    size = f"{fact.size} " if fact.size else ""
    none = f"no available PersistentVolume of class {fact.storage_class} for claim {fact.claim} ({size}wanted)"
    if not fact.provisions:
        return f"{none}, and the class does not provision volumes"
    allowed = "; or ".join(" and ".join(map(_allowed, term)) for term in fact.topologies)
    return f"{none}, and the class provisions only where {allowed or 'no topology matches'}"


def _allowed(wanted: Wanted) -> str:
    return f"{wanted.key} in [{', '.join(wanted.values)}] ({_has(wanted)})"


def _has(wanted: Wanted) -> str:
    return "the node has no such label" if wanted.found is None else f"the node has {wanted.found}"


def _not_enough_storage(fact: facts.NotEnoughStorage) -> str:
    """
    >>> print(words(facts.NotEnoughStorage("shop/data", "fast", "2Gi", 2 << 30, "1Gi", 1 << 30, "rack-1")))
    claim shop/data wants 2Gi of class fast, the most to be had is 1Gi (CSIStorageCapacity rack-1)
    """
    wanted = f"claim {fact.claim} wants {fact.size} of class {fact.storage_class}"
    if fact.largest is None:
        return f"{wanted}, of which no CSIStorageCapacity is known for the node"
    return f"{wanted}, the most to be had is {fact.largest_size} (CSIStorageCapacity {fact.capacity})"


def _disk(fact: facts.DiskMounted) -> str:
    """
    >>> words(facts.DiskMounted("GCE disk d1", "shop/web")), words(facts.DiskMounted())
    ('GCE disk d1 is mounted by shop/web', 'the disk is mounted by a nominated pod')
    """
    return f"{fact.disk} is mounted by {fact.pod}" if fact.pod else "the disk is mounted by a nominated pod"


def _in_use(fact: facts.ClaimInUse) -> str:
    """
    >>> words(facts.ClaimInUse("shop/data", "shop/db", "w1")), words(facts.ClaimInUse())
    ('claim shop/data is used by shop/db on w1', 'the claim is used by a nominated pod')
    """
    if not fact.pod:
        return "the claim is used by a nominated pod"
    return f"claim {fact.claim} is used by {fact.pod} on {fact.node}"


def _other_zone(fact: facts.VolumeInOtherZone) -> str:
    """
    >>> words(facts.VolumeInOtherZone("pv1", "shop/data", "zone", ("a", "b"), "c"))
    'PersistentVolume pv1 of claim shop/data is in zone=a or b, the node is in c'
    """
    place = "has no such label" if fact.found is None else f"is in {fact.found}"
    wanted = f"{fact.key}={' or '.join(fact.values)}"
    return f"PersistentVolume {fact.volume} of claim {fact.claim} is in {wanted}, the node {place}"


# -- devices ---------------------------------------------------------------------------------------------------------


def _unusable(fact: facts.ClaimsUnusable) -> str:
    """
    >>> words(facts.ClaimsUnusable((facts.UnusableClaim("shop/gpu"),)))
    'claim shop/gpu has its devices on other nodes'
    """
    return "; ".join(f"claim {each.claim} {each.why or 'has its devices on other nodes'}" for each in fact.claims)


def _devices(fact: facts.DevicesUnfit) -> str:
    """
    >>> taken = facts.DeviceFault("Allocated", devices=1)
    >>> words(facts.DevicesUnfit((facts.RequestedDevices("shop/gpu", "r", 2, devices=2, free=1, faults=(taken,)),)))
    'shop/gpu request r wants 2 devices, 1 of 2 fit (1 allocated)'
    """
    requests = map(_requested, fact.requests)
    pools = (f"pool {p.pool} is {f'invalid: {p.invalid}' if p.invalid else 'incomplete'}" for p in fact.pools)
    if not fact.together:
        return "; ".join((*requests, *pools))
    met = f"no choice of devices meets {' and '.join(fact.constraints)}" if fact.constraints else "not all at once"
    return "; ".join((*requests, met, *pools))


def _requested(found: facts.RequestedDevices) -> str:
    wanted = "all devices" if found.wanted is None else f"{found.wanted} device{'s' * (found.wanted != 1)}"
    text = f"{found.claim} request {found.request} wants {wanted}"
    if not found.devices:
        return f"{text}, the node has none"
    faults = ", ".join(f"{each.devices} {_fault(each)}" for each in found.faults)
    return f"{text}, {found.free} of {found.devices} fit" + f" ({faults})" * bool(faults)


def _fault(fault: facts.DeviceFault) -> str:
    """
    >>> _fault(facts.DeviceFault("NotSelected", source="claim shop/gpu", expression='device.driver == "x"'))
    'not selected by claim shop/gpu: device.driver == "x"'
    """
    line = " ".join(fault.expression.split())
    selector = f"{fault.source}: {line if len(line) <= EXPRESSION_TOLD else f'{line[: EXPRESSION_TOLD - 1]}…'}"
    return _OF_DEVICES[fault.reason].format(what=fault.what, selector=selector)


_OF_DEVICES = {
    "NotSelected": "not selected by {selector}",
    "SelectorFails": "failing by {what} in {selector}",
    "HasBindingConditions": "with binding conditions",
    "OnOtherNodes": "for other nodes",
    "Allocated": "allocated",
    "WithoutCapacity": "without the capacity",
    "ShortOfCounters": "short of shared counters",
    "Tainted": "tainted {what}",
    "WithoutAttribute": "without attribute {what}",
}
"""The reason of a DeviceFault -> what is said of such devices."""


def _search_failed(fact: facts.DeviceSearchFailed) -> str:
    """
    >>> words(facts.DeviceSearchFailed("no such key: x", "device.x"))
    'no such key: x, in device.x'
    """
    return f"{fact.why.splitlines()[0]}, in {fact.expression}" if fact.expression else fact.why


_WORDS: dict[type, Callable[[Any], str]] = {
    facts.Said: lambda fact: fact.text,
    facts.Insufficient: _insufficient,
    facts.TooManyPods: lambda fact: f"{fact.pods} of {fact.limit} pods",
    facts.Cordoned: lambda fact: "cordoned",
    facts.UntoleratedTaint: _taint,
    facts.AnotherNodeNamed: lambda fact: f"the pod asks for node {fact.node}",
    facts.HostPortHeld: _host_port,
    facts.FeaturesNotDeclared: lambda fact: f"not declared: {', '.join(fact.features)}",
    facts.NodeAffinityUnmet: _node_affinity,
    facts.TopologyLabelMissing: lambda fact: f"the node has no label {fact.key}",
    facts.TooSkewed: _too_skewed,
    facts.NoPodToJoin: _no_pod_to_join,
    facts.NoPodForAllTerms: lambda fact: "no pod matches all affinity terms here",
    facts.PodInTheWay: _pod_in_the_way,
    facts.TooManyVolumes: _too_many_volumes,
    facts.ClaimsUnbound: lambda fact: "; ".join(map(_unbound, fact.claims)),
    facts.VolumeOutOfReach: _out_of_reach,
    facts.ProvisionedElsewhere: lambda fact: f"claim {fact.claim} is being provisioned for node {fact.node}",
    facts.NoVolume: _no_volume,
    facts.NotEnoughStorage: _not_enough_storage,
    facts.VolumeMissing: lambda f: f"claim {f.claim} is bound to PersistentVolume {f.volume}, which does not exist",
    facts.DiskMounted: _disk,
    facts.ClaimInUse: _in_use,
    facts.VolumeInOtherZone: _other_zone,
    facts.ClaimsUnusable: _unusable,
    facts.ResourceNotOffered: lambda fact: f"{fact.resource} is offered neither by the node nor by a DeviceClass",
    facts.DevicesUnfit: _devices,
    facts.DeviceSearchFailed: _search_failed,
}
"""Each sort of fact -> what is said of it."""
