"""What stands behind a refusal on a node, as data: one struct for each sort of fact.

Amounts are integers in base units: millicores of cpu, bytes, counts of anything else. Pods and claims are named
``namespace/name``. The words for people are those of ``kschedctl.studies.why.words``.
"""

from __future__ import annotations

import msgspec


class Fact(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag=True, kw_only=True, gc=False
):
    """Base of all facts. ``nominated``: it counts the pods that are nominated for the node.

    There is one for each node and reason; being no part of a circle, they are nothing for the garbage collector.
    """

    nominated: bool = False


class Detail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of what a fact holds several of."""


class Said(Fact, frozen=True):
    """What a plugin of another package says in its own words."""

    text: str


# -- the node itself -------------------------------------------------------------------------------------------------


class Insufficient(Fact, frozen=True):
    """``free`` of what the node ``offered`` is less than ``requested``; ``largest``: the most that any node offers."""

    resource: str
    requested: int
    free: int
    offered: int
    largest: int

    @property
    def nowhere(self) -> bool:
        """Whether no node has as much even when it is empty."""
        return self.requested > self.largest


class TooManyPods(Fact, frozen=True):
    """As many pods as the node may have, or more, are there."""

    pods: int
    limit: int


class Cordoned(Fact, frozen=True):
    """The node is marked unschedulable."""


class UntoleratedTaint(Fact, frozen=True):
    """The first taint of the node that the pod does not tolerate."""

    key: str
    value: str
    effect: str


class AnotherNodeNamed(Fact, frozen=True):
    """The pod's spec.nodeName is this other node."""

    node: str


class HostPortHeld(Fact, frozen=True):
    """A port that the pod wants is held by another one; nothing is known of one that only a nominated pod holds."""

    protocol: str = ""
    port: int = 0
    address: str = ""
    holder: str = ""


class FeaturesNotDeclared(Fact, frozen=True):
    """Features that the pod needs and the node's kubelet does not declare."""

    features: tuple[str, ...]


class Wanted(Detail, frozen=True):
    """A requirement on a label, or a ``field``, that the node does not meet. ``found``: its value, None without one."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    found: str | None = None
    field: bool = False


class NodeAffinityUnmet(Fact, frozen=True):
    """What the node lacks of the pod's nodeSelector; where it lacks nothing of that, of each of its required terms."""

    selector: tuple[Wanted, ...] = ()
    terms: tuple[tuple[Wanted, ...], ...] = ()


class TopologyLabelMissing(Fact, frozen=True):
    """The node is in no domain of the topology key."""

    key: str


# -- other pods ------------------------------------------------------------------------------------------------------


class TooSkewed(Fact, frozen=True):
    """The ``domain`` of the topology ``key`` has more matching ``pods`` than the emptiest, which has ``fewest``."""

    key: str
    domain: str
    pods: int
    fewest: int
    skew: int
    max_skew: int


class NoPodToJoin(Fact, frozen=True):
    """A term of pod affinity selects no pod in the node's ``domain``.

    An empty ``selector`` selects all pods, None, which is that of a term without labelSelector, no pod at all.
    """

    selector: str | None
    key: str
    domain: str


class NoPodForAllTerms(Fact, frozen=True):
    """Each term of pod affinity selects some pod there, and no pod is selected by all of them."""


class PodInTheWay(Fact, frozen=True):
    """A ``pod``, and so many ``others``, that anti-affinity keeps apart; nothing is known of one that is nominated."""

    pod: str = ""
    others: int = 0
    key: str = ""
    domain: str = ""


# -- volumes ---------------------------------------------------------------------------------------------------------


class DriverLimit(Detail, frozen=True):
    """A CSI driver that has ``attached`` volumes, and would get as many ``more`` with the pod, over its ``limit``."""

    driver: str
    attached: int
    limit: int
    more: int


class TooManyVolumes(Fact, frozen=True):
    drivers: tuple[DriverLimit, ...]


class UnboundClaim(Detail, frozen=True):
    """A claim that has to be bound before a node is looked for, to its ``volume`` if it names one.

    ``provisioner``: what makes volumes of its class, empty where nothing does.
    """

    claim: str
    volume: str = ""
    storage_class: str = ""
    class_exists: bool = False
    provisioner: str = ""


class ClaimsUnbound(Fact, frozen=True):
    claims: tuple[UnboundClaim, ...]


class VolumeOutOfReach(Fact, frozen=True):
    """What the required node affinity of a bound volume wants; empty where its terms match nothing."""

    volume: str
    claim: str
    wanted: tuple[Wanted, ...]


class ProvisionedElsewhere(Fact, frozen=True):
    """A volume for the claim is being made for another node."""

    claim: str
    node: str


class NoVolume(Fact, frozen=True):
    """A claim of so many ``requested`` bytes, written ``size``, that finds no volume.

    ``provisions``: its class does provision volumes, only where the ``topologies`` allow it.
    """

    claim: str
    storage_class: str
    size: str
    requested: int
    provisions: bool
    topologies: tuple[tuple[Wanted, ...], ...] = ()


class NotEnoughStorage(Fact, frozen=True):
    """``largest``: the most bytes that a CSIStorageCapacity, the ``capacity``, has there; None: none is known."""

    claim: str
    storage_class: str
    size: str
    requested: int
    largest_size: str = ""
    largest: int | None = None
    capacity: str = ""


class VolumeMissing(Fact, frozen=True):
    """The claim is bound to a volume that does not exist."""

    claim: str
    volume: str


class DiskMounted(Fact, frozen=True):
    """A ``pod`` of the node has the ``disk`` mounted; nothing is known of one that is nominated."""

    disk: str = ""
    pod: str = ""


class ClaimInUse(Fact, frozen=True):
    """A claim for one pod only is used by a ``pod`` on a ``node``; nothing is known of a nominated one."""

    claim: str = ""
    pod: str = ""
    node: str = ""


class VolumeInOtherZone(Fact, frozen=True):
    """A volume that is in the ``values`` of a zone or region label, of which the node has ``found``."""

    volume: str
    claim: str
    key: str
    values: tuple[str, ...]
    found: str | None


# -- devices ---------------------------------------------------------------------------------------------------------


class UnusableClaim(Detail, frozen=True):
    """An allocated claim, and ``why`` its devices will not be ready; empty where they are ready on other nodes."""

    claim: str
    why: str = ""


class ClaimsUnusable(Fact, frozen=True):
    claims: tuple[UnusableClaim, ...]


class ResourceNotOffered(Fact, frozen=True):
    """Neither the node nor a DeviceClass offers the extended resource."""

    resource: str


class DeviceFault(Detail, frozen=True):
    """Why so many ``devices`` of a node do not fit a request.

    ``reason``: NotSelected, SelectorFails (with ``what``), HasBindingConditions, OnOtherNodes, Allocated,
    WithoutCapacity, ShortOfCounters, Tainted (with ``what``), WithoutAttribute (``what``). ``source``: whose the CEL
    ``expression`` of a selector is.
    """

    reason: str
    what: str = ""
    source: str = ""
    expression: str = ""
    devices: int = 0


class RequestedDevices(Detail, frozen=True):
    """So many devices are ``wanted``, None for all of the node's; of as many as it has ``free`` would do."""

    claim: str
    request: str
    wanted: int | None
    devices: int
    free: int
    faults: tuple[DeviceFault, ...] = ()


class PoolTrouble(Detail, frozen=True):
    """A pool of devices that is not used, as it is ``invalid``; else it is incomplete."""

    pool: str
    invalid: str = ""


class DevicesUnfit(Fact, frozen=True):
    """The ``requests`` that the node's devices cannot fill.

    ``together``: each by itself they could, all at once they cannot, at least not so that the ``constraints`` are met.
    """

    requests: tuple[RequestedDevices, ...]
    together: bool = False
    constraints: tuple[str, ...] = ()
    pools: tuple[PoolTrouble, ...] = ()


class DeviceSearchFailed(Fact, frozen=True):
    """The search for devices ends with an error, maybe in a CEL ``expression``."""

    why: str
    expression: str = ""


AnyFact = (
    Said
    | Insufficient
    | TooManyPods
    | Cordoned
    | UntoleratedTaint
    | AnotherNodeNamed
    | HostPortHeld
    | FeaturesNotDeclared
    | NodeAffinityUnmet
    | TopologyLabelMissing
    | TooSkewed
    | NoPodToJoin
    | NoPodForAllTerms
    | PodInTheWay
    | TooManyVolumes
    | ClaimsUnbound
    | VolumeOutOfReach
    | ProvisionedElsewhere
    | NoVolume
    | NotEnoughStorage
    | VolumeMissing
    | DiskMounted
    | ClaimInUse
    | VolumeInOtherZone
    | ClaimsUnusable
    | ResourceNotOffered
    | DevicesUnfit
    | DeviceSearchFailed
)


def as_fact(found: AnyFact | str | None) -> AnyFact | None:
    """What a plugin gives as fact: one of other packages may give words alone.

    >>> as_fact("too loud"), as_fact(Cordoned()), as_fact("")
    (Said(text='too loud', nominated=False), Cordoned(nominated=False), None)
    """
    return (Said(found) if found else None) if isinstance(found, str) else found
