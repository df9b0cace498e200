"""The facts that explain rejections by VolumeBinding, with their wording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.objects import Node, PersistentVolumeClaim, StorageClass
from kschedctl.scheduler.framework.facts import CauseScope, Detail, Fact, LabelDemand, Wanted
from kschedctl.scheduler.plugins.helper.csi_migration import find_in_tree_plugin, translate_affinity
from kschedctl.scheduler.plugins.helper.volume_listers import (
    NO_PROVISIONER,
    SELECTED_NODE,
    Listers,
    format_claim_key,
    get_claim_class,
    parse_requested_storage,
)
from kschedctl.scheduler.plugins.volume_binding.binder import PodVolumes
from kschedctl.scheduler.plugins.volume_binding.matching import NO_MATCH


class UnboundClaim(Detail, frozen=True):
    """A claim that must be bound before a node is chosen."""

    claim: str
    volume: str = ""
    """The volume that it names, if any."""
    storage_class: str = ""
    class_exists: bool = False
    provisioner: str = ""
    """The provisioner of its class, empty if the class has no provisioner."""

    def describe(self) -> str:
        """Describe why the claim is not bound: the volume, class or provisioner that it waits for.

        >>> UnboundClaim("shop/data", storage_class="fast").describe()
        'claim shop/data is not bound: its StorageClass fast does not exist'
        """
        class_name = self.storage_class
        if self.volume:
            reason = f"it waits for PersistentVolume {self.volume}"
        elif not class_name and not self.class_exists:
            reason = "it has no class and waits for a PersistentVolume"
        elif not self.class_exists:
            reason = f"its StorageClass {class_name} does not exist"
        elif not self.provisioner:
            reason = f"it waits for a PersistentVolume of class {class_name}, which has no provisioner"
        else:
            reason = f"it waits for {self.provisioner} to provision a volume of class {class_name}"
        return f"claim {self.claim} is not bound: {reason}"


class ClaimsUnbound(Fact, frozen=True):
    """Claims that must be bound before a node is chosen."""

    claims: tuple[UnboundClaim, ...]

    @property
    def is_same_on_all_nodes(self) -> bool:
        """Return True, as the claims have to be bound whatever the node is."""
        return True

    @property
    def names_missing_class(self) -> bool:
        """True if a claim is not bound because its StorageClass does not exist."""
        return any(claim.storage_class and not claim.class_exists and not claim.volume for claim in self.claims)

    def get_claim(self) -> str:
        """Return the first claim."""
        return self.claims[0].claim if self.claims else ""

    def describe(self) -> str:
        """Describe what each claim waits for."""
        return "; ".join(claim.describe() for claim in self.claims)


class VolumeOutOfReach(Fact, frozen=True):
    """A bound volume whose node affinity does not match the node."""

    names_node = True

    volume: str
    claim: str
    wanted: tuple[Wanted, ...]
    """The requirements of its required terms, empty if the terms match nothing."""

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Describe the requirements of the volume and the node's labels.

        >>> VolumeOutOfReach("pv1", "shop/data", (Wanted("zone", "In", ("a",), "b"),)).describe()
        'PersistentVolume pv1 of claim shop/data needs zone=a, but the node has zone=b'
        """
        return self._describe_need("the node")

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe the requirements of the volume, what the named node has instead, and how many nodes do not match.

        >>> scope = CauseScope("w3", "", " (rules out all 12 nodes)", is_example=True, nodes="all 12 nodes")
        >>> VolumeOutOfReach("pv1", "d/data", (Wanted("zone", "In", ("a",), "b"),)).describe_cause(scope)
        'PersistentVolume pv1 of claim d/data needs zone=a, which rules out all 12 nodes (w3, for example, has zone=b)'
        """
        if scope.is_example and scope.nodes and len(self.wanted) == 1:
            requirement = self.wanted[0]
            labels = f"{scope.describe_node()} has {requirement.describe_label()}"
            return (
                f"PersistentVolume {self.volume} of claim {self.claim} needs {requirement.describe_need()}, "
                f"which rules out {scope.nodes} ({labels})"
            )
        return f"{self._describe_need(scope.describe_node())}{scope.share}"

    def _describe_need(self, node: str) -> str:
        """Describe what the volume needs and what the node has instead. `node` names the node in the text."""
        requirements = (
            f"{requirement.describe_need()}, but {node} has {requirement.describe_label()}"
            for requirement in self.wanted
        )
        text = "; ".join(dict.fromkeys(requirements)) or "a node that cannot exist: its terms match nothing"
        return f"PersistentVolume {self.volume} of claim {self.claim} needs {text}"

    def list_label_demands(self) -> tuple[LabelDemand, ...]:
        """Return the label demand of the volume's node affinity, or () if several labels or other operators decide.

        There is a demand if all requirements are on the same label and have the operator In.
        """
        keys = {requirement.key for requirement in self.wanted}
        operators = {requirement.operator for requirement in self.wanted}
        if len(keys) != 1 or operators != {"In"}:
            return ()
        (key,) = keys
        # The terms of a node affinity are alternatives, so the values of all of them are acceptable.
        values = tuple(value for requirement in self.wanted for value in requirement.values)
        return (LabelDemand("its volume", key, values, self.claim),)


class ProvisionedElsewhere(Fact, frozen=True):
    """A claim whose volume is being provisioned for another node."""

    claim: str
    node: str

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Say for which node the claim is being provisioned."""
        return f"claim {self.claim} is being provisioned for node {self.node}"


class NoVolume(Fact, frozen=True):
    """A claim for which no volume is available."""

    claim: str
    storage_class: str
    size: str
    """The requested size as a quantity."""
    requested: int
    """The requested size in bytes."""
    provisions: bool
    """True if the class provisions volumes, though not on this node."""
    topologies: tuple[tuple[Wanted, ...], ...] = ()
    """The topologies in which the class provisions volumes."""

    @property
    def is_same_on_all_nodes(self) -> bool:
        """True if the class provisions no volumes, so that the same text describes each node."""
        return not self.provisions

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Say which volume is missing, and why none can be provisioned on the node.

        >>> print(NoVolume("a/d", "fast", "1Gi", 1 << 30, provisions=False).describe())
        claim a/d requests 1Gi, but no matching PersistentVolume of class fast is available, and the class has no \
provisioner
        """
        demand = f"claim {self.claim} requests {self.size}" if self.size else f"claim {self.claim} is not bound"
        no_volume = f"{demand}, but no matching PersistentVolume of class {self.storage_class} is available"
        if not self.provisions:
            return f"{no_volume}, and the class has no provisioner"
        allowed_terms = [" and ".join(map(_describe_allowed_values, term)) for term in self.topologies]
        allowed = "; or ".join(allowed_terms) or "no topology matches"
        return f"{no_volume}, and the class provisions only where {allowed}"


class NotEnoughStorage(Fact, frozen=True):
    """A claim that is larger than the free storage that the driver publishes for the node."""

    claim: str
    storage_class: str
    size: str
    """The requested size as a quantity."""
    requested: int
    """The requested size in bytes."""
    largest_size: str = ""
    """The size of the largest volume that fits, as a quantity."""
    largest: int | None = None
    """The size of the largest volume that fits in bytes, None if no CSIStorageCapacity is known for the node."""
    capacity: str = ""
    """The CSIStorageCapacity with the largest volume size."""
    driver: str = ""
    """The class's CSI driver, whose CSIDriver says storageCapacity: true."""
    pools: int = 0
    """The number of CSIStorageCapacity objects with a capacity that the class has in the whole cluster."""

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Describe the requested storage, and the storage of the largest pool that the node can use.

        If the driver publishes no capacity, or a capacity of 0, the text names the driver and its setting.

        >>> print(NotEnoughStorage("a/data", "fast", "2Gi", 2 << 30, "1Gi", 1 << 30, "rack-1", "csi.test").describe())
        claim a/data requests 2Gi of class fast, but CSIStorageCapacity rack-1 has at most 1Gi
        >>> NotEnoughStorage("a/d", "fast", "2Gi", 2 << 30, "0", 0, "r1", "csi.test").describe().partition(", ")[2]
        'but csi.test publishes a capacity of 0 in CSIStorageCapacity r1, and its CSIDriver says storageCapacity: true'
        >>> NotEnoughStorage("a/d", "fast", "2Gi", 2 << 30, driver="csi.test").describe().partition(", ")[2]
        'but no CSIStorageCapacity has any, although CSIDriver csi.test says storageCapacity: true'
        """
        demand = f"claim {self.claim} requests {self.size} of class {self.storage_class}"
        if self.largest is None:
            if self.driver and not self.pools:
                says = f"CSIDriver {self.driver} says storageCapacity: true"
                return f"{demand}, but no CSIStorageCapacity has any, although {says}"
            return f"{demand}, but no CSIStorageCapacity is known for the node"
        if self.largest == 0 and self.driver:
            published = f"but {self.driver} publishes a capacity of 0 in CSIStorageCapacity {self.capacity}"
            return f"{demand}, {published}, and its CSIDriver says storageCapacity: true"
        return f"{demand}, but CSIStorageCapacity {self.capacity} has at most {self.largest_size}"


class VolumeMissing(Fact, frozen=True):
    """A claim that is bound to a volume that does not exist."""

    claim: str
    volume: str

    @property
    def is_same_on_all_nodes(self) -> bool:
        """Return True, as the volume is missing whatever the node is."""
        return True

    def get_claim(self) -> str:
        """Return the claim."""
        return self.claim

    def describe(self) -> str:
        """Say to which missing volume the claim is bound."""
        return f"claim {self.claim} is bound to PersistentVolume {self.volume}, which does not exist"


def _describe_allowed_values(requirement: Wanted) -> str:
    """Describe the values of a label that a topology allows, and the node's value of the label."""
    return f"{requirement.key} in [{', '.join(requirement.values)}] ({_describe_label_of_node(requirement)})"


def _describe_label_of_node(requirement: Wanted) -> str:
    """Say what value of the required label the node has, or that it has no such label."""
    if requirement.found is None:
        return "the node has no such label"
    return f"the node has {requirement.found}"


def build_unbound_fact(claims: Sequence[PersistentVolumeClaim], listers: Listers) -> ClaimsUnbound:
    """Build the fact about the claims that must be bound before a node is chosen."""
    return ClaimsUnbound(tuple(_build_unbound_claim(claim, listers) for claim in claims))


def _build_unbound_claim(claim: PersistentVolumeClaim, listers: Listers) -> UnboundClaim:
    """Build the details of a claim that must be bound before a node is chosen: its volume, class and provisioner.

    A class that cannot provision volumes counts as having no provisioner.
    """
    class_name = get_claim_class(claim)
    storage_class = listers.classes.get(class_name)
    provisioner = ""
    if storage_class is not None and storage_class.provisioner != NO_PROVISIONER:
        provisioner = storage_class.provisioner
    return UnboundClaim(
        format_claim_key(claim),
        volume=claim.spec.volume_name,
        storage_class=class_name,
        class_exists=storage_class is not None,
        provisioner=provisioner,
    )


def build_node_conflict_fact(volumes: PodVolumes, row: int) -> VolumeOutOfReach:
    """Build the fact about the bound volume that cannot be reached from the node.

    It has all requirements on labels in the volume's node affinity. If the node uses an in-tree volume through CSI,
    these are the requirements of the translated affinity.
    """
    claim = volumes.claims[volumes.node_conflict[row]]
    listers = volumes.listers
    volume = listers.volumes[claim.spec.volume_name]
    labels = listers.nodes.objects[row].metadata.labels

    affinity = volume.spec.node_affinity
    plugin = find_in_tree_plugin(volume.spec)
    if plugin is not None and listers.counts_as_csi(plugin):
        is_migrated = listers.csi_nodes.find_migrated_nodes(plugin.name)[row]
        if is_migrated:
            affinity = translate_affinity(volume, plugin)

    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    requirements: dict[Wanted, None] = {}  # an ordered set, because terms repeat requirements
    for term in terms:
        for requirement in term.match_expressions:
            label_value = labels.get(requirement.key)
            requirements[Wanted(requirement.key, requirement.operator, requirement.values or (), label_value)] = None
    return VolumeOutOfReach(volume.metadata.name, format_claim_key(claim), tuple(requirements))


def build_bind_conflict_fact(volumes: PodVolumes, row: int) -> ProvisionedElsewhere | NoVolume:
    """Build the fact that explains why a claim gets no volume on the node.

    Either the claim is being provisioned for another node, or there is no matching volume and the class cannot
    provision one on the node.
    """
    claim = volumes.claims[volumes.bind_conflict[row]]
    nodes = volumes.listers.nodes
    selected_node = claim.metadata.annotations.get(SELECTED_NODE)
    if selected_node not in (None, nodes.names[row]):
        return ProvisionedElsewhere(format_claim_key(claim), selected_node)

    storage_class = volumes.listers.classes[get_claim_class(claim)]
    provisions = storage_class.provisioner not in ("", NO_PROVISIONER)
    size, requested = _get_requested_size(claim)
    return NoVolume(
        format_claim_key(claim),
        storage_class=get_claim_class(claim),
        size=size,
        requested=requested,
        provisions=provisions,
        topologies=_list_allowed_topologies(storage_class, nodes.objects[row]) if provisions else (),
    )


def _list_allowed_topologies(storage_class: StorageClass, node: Node) -> tuple[tuple[Wanted, ...], ...]:
    """Return the label requirements of each topology that the class allows, with the node's values of the labels."""
    topologies = []
    for term in storage_class.allowed_topologies:
        requirements = [
            Wanted(expression.key, "In", tuple(expression.values), node.metadata.labels.get(expression.key))
            for expression in term.match_label_expressions
        ]
        topologies.append(tuple(requirements))
    return tuple(topologies)


def build_not_enough_space_fact(volumes: PodVolumes, row: int) -> NotEnoughStorage:
    """Build the fact about the claim that fits into no storage pool of the node.

    The fact names the largest of these pools. If no pool with a known capacity serves the node, the fact names no pool.
    """
    claim = volumes.claims[volumes.not_enough_space[row]]
    class_name = get_claim_class(claim)
    pools = volumes.listers.pools_of_class.get(class_name, ())
    sized_pools = [pool for pool in pools if pool.limit is not None]
    size, requested = _get_requested_size(claim)
    fact = NotEnoughStorage(
        format_claim_key(claim),
        class_name,
        size=size,
        requested=requested,
        driver=volumes.listers.classes[class_name].provisioner,
        pools=len(sized_pools),
    )

    # Add the largest pool of the node.
    reachable_pools = [pool for pool in sized_pools if row in pool.rows]
    if not reachable_pools:
        return fact
    largest = max(reachable_pools, key=lambda pool: pool.limit or 0)
    capacity = largest.capacity
    max_size = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return replace(fact, largest_size=str(max_size), largest=largest.limit, capacity=capacity.metadata.name)


def compute_space_shortfall(volumes: PodVolumes) -> npt.NDArray[np.float64]:
    """Return, for each node, how much the largest storage pool falls short of a claim, as a share of the claim's size.

    The claim is the one for which the node is rejected. The share is 0 for nodes that are rejected for other reasons or
    not at all.
    """
    rejecting_claims = volumes.not_enough_space
    shares = np.zeros(len(rejecting_claims))
    for claim_index in np.unique(rejecting_claims[rejecting_claims != NO_MATCH]).tolist():
        claim = volumes.claims[claim_index]
        largest = np.zeros(len(rejecting_claims))
        for pool in volumes.listers.pools_of_class.get(get_claim_class(claim), ()):
            largest[pool.rows] = np.maximum(largest[pool.rows], pool.limit or 0)
        _, requested = _get_requested_size(claim)
        is_rejected = rejecting_claims == claim_index
        shares[is_rejected] = 1 - np.minimum(largest[is_rejected] / max(requested, 1), 1)
    return shares


def build_missing_fact(volumes: PodVolumes, row: int) -> VolumeMissing:
    """Build the fact about the claim that is bound to a volume that does not exist."""
    claim = volumes.claims[volumes.missing[row]]
    return VolumeMissing(format_claim_key(claim), claim.spec.volume_name)


def _get_requested_size(claim: PersistentVolumeClaim) -> tuple[str, int]:
    """Return the size that the claim requests, as a quantity and in bytes. It is ("", 0) if it requests none."""
    size = parse_requested_storage(claim)
    if not size:
        return "", 0
    return str(size), size.value()
