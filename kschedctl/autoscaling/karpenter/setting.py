"""Karpenter's options, a cluster as Karpenter sees it at one moment, and scheduling runs on it.

Upstream: pkg/operator/options/options.go, and NewScheduler in pkg/controllers/provisioning/provisioner.go and
scheduling/scheduler.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.karpenter import NodePool
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.pod_requests import Quantities, parse_quantities
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.karpenter.amounts import ZERO, subtract_quantities, sum_quantities
from kschedctl.autoscaling.karpenter.claims import Reservations, RunSettings, collect_reservation_capacities
from kschedctl.autoscaling.karpenter.daemons import DaemonGroup, Daemons, get_daemonset_pods
from kschedctl.autoscaling.karpenter.existing_nodes import ExistingColumns, ExistingNode, RunNodes
from kschedctl.autoscaling.karpenter.instance_types import InstanceTypeCatalog
from kschedctl.autoscaling.karpenter.node_classes import NodeClasses, get_class_reference
from kschedctl.autoscaling.karpenter.overlays import AppliedOverlays
from kschedctl.autoscaling.karpenter.pod_data import PodData, build_pod_data
from kschedctl.autoscaling.karpenter.pods import EvictionLimits, is_provisionable
from kschedctl.autoscaling.karpenter.requirements import Requirements
from kschedctl.autoscaling.karpenter.scheduler import SchedulerRun
from kschedctl.autoscaling.karpenter.state_nodes import StateNode, build_state_nodes
from kschedctl.autoscaling.karpenter.templates import (
    ClaimTemplate,
    build_claim_template,
    has_unmet_min_values,
    select_usable_pools,
)
from kschedctl.autoscaling.karpenter.topology import Domains, RunTopology, build_topology_domains
from kschedctl.autoscaling.karpenter.topology_group import DomainTallies
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns
from kschedctl.autoscaling.karpenter.validation import find_pod_rejection
from kschedctl.autoscaling.karpenter.volumes import Volumes
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.reports.karpenter import KarpenterEvent
from kschedctl.text.counts import counted

_MAX_INSTANCE_TYPES = 600

NO_POOLS = "no nodepools found"
FILTERED_OUT = "NodePool requirements filtered out all compatible available instance types"
WITH_MIN_VALUES = " due to minValues incompatibility"
SettlingPredicate = Callable[[StateNode], bool]
"""Returns whether a node may not take pods from other nodes yet."""


class KarpenterGates(Struct, frozen=True, rename="pascal"):
    """The feature gates that affect the replay."""

    spot_to_spot_consolidation: bool = False
    node_overlay: bool = False
    reserved_capacity: bool = True


class KarpenterOptions(Struct, frozen=True):
    """Options of Karpenter that affect the replay."""

    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    feature_gates: KarpenterGates = KarpenterGates()
    max_instance_types: int = _MAX_INSTANCE_TYPES
    """Maximum number of types that a NodeClaim names, the cheapest first."""

    @property
    def ignores_preferences(self) -> bool:
        """True if soft constraints of pods are ignored."""
        return self.preference_policy == "Ignore"

    @property
    def relaxes_min_values(self) -> bool:
        """True if minValues that cannot be met are lowered."""
        return self.min_values_policy == "BestEffort"


def read_karpenter_options(document: Mapping[str, object]) -> KarpenterOptions:
    """Parse Karpenter's options from a document. Raises InputError if a value is invalid."""
    try:
        return convert_builtins(document, KarpenterOptions)
    except msgspec.ValidationError as error:
        raise InputError(str(error), where="options") from None


@dataclass(frozen=True, eq=False)
class UsablePools:
    """The NodePools that take part in scheduling, with their instance types, templates and DaemonSets."""

    node_pools: Sequence[NodePool]
    """Pools in the order in which they are tried."""
    columns: dict[str, TypeColumns]
    all_templates: Sequence[ClaimTemplate]
    groups: Mapping[str, Sequence[DaemonGroup]]
    daemons: Daemons
    """The DaemonSets' pods, as the templates relaxed them."""
    domains: dict[str, Domains]

    @classmethod
    def from_pools(cls, pools: Sequence[NodePool], setting: KarpenterSetting) -> UsablePools:
        """Build the instance type columns, templates, DaemonSet groups and topology domains of the pools.

        Pools without instance types get no template.
        """
        columns = {pool.metadata.name: setting.get_type_columns(pool.metadata.name) for pool in pools}
        pools_with_types = [pool for pool in pools if len(columns[pool.metadata.name])]
        templates = [
            build_claim_template(
                pool,
                columns[pool.metadata.name],
                setting.catalog.well_known,
                relax_min_values=setting.options.relaxes_min_values,
            )
            for pool in pools_with_types
        ]
        daemons = Daemons(setting.daemon_pods)
        groups = {
            template.name: daemons.build_daemon_groups(template) for template in templates if template.options.any()
        }
        return cls(
            pools,
            columns,
            templates,
            groups=groups,
            daemons=daemons,
            domains=build_topology_domains(pools_with_types, columns),
        )

    def narrow_to_edited_pool(self, pool: NodePool, setting: KarpenterSetting) -> UsablePools:
        """Return usable pools that consist of only `pool`, with the topology domains of all pools.

        `pool` is an edited version of a stored pool with the same name, and takes its place in the domains.
        """
        edited_only = UsablePools.from_pools([pool], setting)
        pools = [pool if stored.metadata.name == pool.metadata.name else stored for stored in self.node_pools]
        pools_with_types = [other for other in pools if len(self.columns[other.metadata.name])]
        return replace(edited_only, domains=build_topology_domains(pools_with_types, self.columns))

    @property
    def templates(self) -> list[ClaimTemplate]:
        """The templates whose requirements at least one instance type meets."""
        return [template for template in self.all_templates if template.options.any()]

    @property
    def events(self) -> tuple[KarpenterEvent, ...]:
        """Events about pools without a compatible instance type."""
        return tuple(
            KarpenterEvent("NodePool", template.name, "NoCompatibleInstanceTypes", describe_missing_types(template))
            for template in self.all_templates
            if not template.options.any()
        )

    @property
    def has_soft_taints(self) -> bool:
        """True if any pool has a PreferNoSchedule taint."""
        return any(
            taint.effect == "PreferNoSchedule" for pool in self.node_pools for taint in pool.spec.template.spec.taints
        )


def describe_missing_types(template: ClaimTemplate) -> str:
    """Describe in Karpenter's words why no instance type is left for a pool's template."""
    return FILTERED_OUT + (WITH_MIN_VALUES if has_unmet_min_values(template) else "")


def explain_unusable_pool(setting: KarpenterSetting, pool: NodePool) -> str:
    """Explain why a NodePool without a template takes no part in scheduling.

    The pool is static, is being deleted, has no known instance type, or is not ready. The reason why it is not ready is
    included if it is known.
    """
    if pool.spec.replicas is not None:
        return f"not used: static, with {counted(pool.spec.replicas, 'replica')}"
    if pool.metadata.deletion_timestamp is not None:
        return "not used: it is being deleted"
    if pool in setting.pools.node_pools:
        return "not used: no instance type is known"
    unready_messages = (
        condition.message or condition.reason
        for condition in pool.status.conditions
        if condition.type == "Ready" and condition.status != "True"
    )
    first_message = next(filter(None, unready_messages), "")
    class_fault = setting.node_classes.describe_class_fault(pool)
    reasons = [reason for reason in (first_message, class_fault) if reason]
    return f"not used: not Ready: {'; '.join(reasons)}" if reasons else "not used: not Ready"


@dataclass(frozen=True, eq=False)
class KarpenterSetting:
    """A cluster with the options and instance types of a replay, and data derived from them."""

    cluster: Cluster
    catalog: InstanceTypeCatalog
    options: KarpenterOptions
    now: int
    """Microseconds since the epoch."""

    @classmethod
    def for_cluster(
        cls, cluster: Cluster, catalog: InstanceTypeCatalog, options: KarpenterOptions, now: str
    ) -> KarpenterSetting:
        """Build the setting of a cluster at the time ``now`` in RFC 3339. Raises InputError if the time is invalid."""
        return cls(cluster, catalog, options, parse_microseconds(now))

    @cached_property
    def nodes(self) -> list[StateNode]:
        """The nodes and NodeClaims that Karpenter tracks."""
        return build_state_nodes(self.cluster)

    @cached_property
    def volumes(self) -> Volumes:
        """The cluster's volumes, claims and StorageClasses."""
        return Volumes(self.cluster)

    @cached_property
    def limits(self) -> EvictionLimits:
        """The limits on evictions, which PodDisruptionBudgets set."""
        return EvictionLimits(self.cluster.pod_disruption_budgets, self.cluster.pods, self.now)

    @cached_property
    def daemon_pods(self) -> list[Pod]:
        """A pod for each DaemonSet."""
        return get_daemonset_pods(self.cluster)

    @cached_property
    def overlays(self) -> AppliedOverlays | None:
        """The applied NodeOverlays, or None if the feature gate is off."""
        if not self.options.feature_gates.node_overlay:
            return None
        cluster, catalog = self.cluster, self.catalog
        return AppliedOverlays.apply_overlays(
            cluster.node_overlays, cluster.karpenter_node_pools, catalog.types, catalog.well_known
        )

    @cached_property
    def _type_columns(self) -> dict[object, TypeColumns]:
        """The cache of ``get_type_columns``.

        With NodeOverlays, the keys are the names of pools. Otherwise, they are references to node classes, and None for
        all pools whose node class is unknown.
        """
        return {}

    @cached_property
    def node_classes(self) -> NodeClasses:
        """The node classes of the cluster."""
        return NodeClasses(self.cluster)

    @cached_property
    def _pools(self) -> dict[str, NodePool]:
        """The NodePools by name, including pools that take no part in scheduling."""
        return {pool.metadata.name: pool for pool in self.cluster.karpenter_node_pools}

    def get_type_columns(self, pool: str) -> TypeColumns:
        """Return the columns of a pool's instance types, as its node class and the NodeOverlays adjust them.

        ``pool`` is the name of a pool, which need not exist. The columns are cached. Without overlays, pools with the
        same node class share them.
        """
        node_pool = self._pools.get(pool)
        cache_key: object = None  # shared by all pools without a node class
        if self.overlays is not None:
            cache_key = pool
        elif node_pool and self.node_classes.find_node_class(node_pool):
            cache_key = get_class_reference(node_pool)

        if cache_key not in self._type_columns:
            types = self.catalog.types
            if self.overlays is not None:
                types = self.overlays.adjust_instance_types(pool, types)
            self._type_columns[cache_key] = TypeColumns(self.node_classes.adjust_instance_types(node_pool, types))
        return self._type_columns[cache_key]

    @cached_property
    def pools(self) -> UsablePools:
        """The NodePools that take part in scheduling, with data derived from them."""
        return UsablePools.from_pools(select_usable_pools(self.cluster.karpenter_node_pools, self.node_classes), self)

    @cached_property
    def counts(self) -> DomainTallies:
        """The cached numbers of nodes and pods in each topology domain."""
        return DomainTallies(self.nodes)

    @cached_property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """The labels of each namespace, by its name. The default namespace is always included."""
        return {"default": {}} | {
            namespace.metadata.name: namespace.metadata.labels for namespace in self.cluster.namespaces
        }

    @cached_property
    def waiting(self) -> list[Pod]:
        """Unschedulable pods, including pods that Karpenter rejects."""
        return [pod for pod in self.cluster.pods.iter_unbound_pods() if is_provisionable(pod)]

    @cached_property
    def rejections(self) -> dict[str, str]:
        """The reason why Karpenter rejects each waiting pod, by the pod's key. Other pods are left out.

        The reason is "" if Karpenter writes no event about the pod.
        """
        errors = {pod.key: find_pod_rejection(pod, self.volumes, self.catalog.well_known) for pod in self.waiting}
        return {key: error for key, error in errors.items() if error is not None}

    @cached_property
    def pending(self) -> list[Pod]:
        """Unschedulable pods that Karpenter does not reject."""
        return [pod for pod in self.waiting if pod.key not in self.rejections]

    @cached_property
    def pods_of_deleting_nodes(self) -> list[Pod]:
        """All pods on nodes that are being deleted."""
        return [pod for node in self.nodes if node.deleting for pod in node.bound]

    @cached_property
    def reschedulable_deleting_pods(self) -> list[Pod]:
        """Pods of deleting nodes that have to be rescheduled."""
        return [pod for pod in self.pods_of_deleting_nodes if self.limits.is_currently_reschedulable(pod)]

    def build_existing_node_columns(self, pools: UsablePools, is_settling: SettlingPredicate) -> ExistingColumns:
        """Build the ExistingColumns of all nodes that are not being deleted, initialized nodes first, then by name.

        ``pools`` provide the DaemonSet pods that are expected on the nodes. Nodes for which ``is_settling`` is true may
        not take pods from other nodes yet.
        """
        volume_limits = {
            csi_node.metadata.name: {
                driver.name: driver.allocatable.count or 0 for driver in csi_node.spec.drivers if driver.allocatable
            }
            for csi_node in self.cluster.csi_nodes
        }
        staying = [node for node in self.nodes if not node.deleting]
        staying.sort(key=lambda node: (not node.initialized, node.name))
        existing = []
        for state in staying:
            node_limits = volume_limits.get(state.node.metadata.name, {}) if state.node else {}
            existing.append(
                ExistingNode.from_state(state, pools.daemons, node_limits, self.volumes, settling=is_settling(state))
            )
        return ExistingColumns(existing)

    @cached_property
    def used_capacity(self) -> dict[str, Quantities]:
        """The total capacity of each pool's nodes, by pool. Nodes that are being deleted do not count."""
        by_pool: dict[str, list[Quantities]] = {}
        for node in self.nodes:
            if not node.deleting:
                by_pool.setdefault(node.pool, []).append(node.capacity)
        return {pool: sum_quantities(*capacities) for pool, capacities in by_pool.items()}

    def compute_remaining_limits(
        self, without: Iterable[StateNode], pools: Sequence[NodePool] | None = None
    ) -> dict[str, Quantities]:
        """Return what remains of each pool's limits if the nodes in ``without`` are removed.

        ``pools`` are the usable pools by default. Pools without limits are left out.
        """
        pools = self.pools.node_pools if pools is None else pools
        remaining: dict[str, Quantities] = {}
        for pool in pools:
            if pool.spec.limits is not None:
                pool_name = pool.metadata.name
                limits = parse_quantities(pool.spec.limits)
                remaining[pool_name] = subtract_quantities(limits, self.used_capacity.get(pool_name, {}))
        for node in without:
            pool_remaining = remaining.get(node.pool, {})
            for resource, amount in pool_remaining.items():
                pool_remaining[resource] = amount.add(node.capacity.get(resource, ZERO))
        return remaining

    def run_scheduler(
        self,
        pods: Sequence[Pod],
        existing: ExistingColumns,
        *,
        without: Collection[str] = (),
        templates: Sequence[ClaimTemplate] | None = None,
        pools: UsablePools | None = None,
        new_nodes_only: bool = False,
        strict_reservations: bool = True,
        movable: Collection[str] = (),
    ) -> SchedulerRun:
        """Place these pods on the existing nodes and on new nodes, and return the run.

        The nodes named in ``without`` are treated as removed. By default, ``templates`` and ``pools`` are those of the
        setting. With ``new_nodes_only``, existing nodes take no pods. With ``strict_reservations``, a claim fails
        rather than lose or miss reserved capacity. ``movable`` are the keys of the pods that settling nodes may also
        take.

        Pods with missing volumes are placed regardless of their volumes and, at first, of their topology constraints.
        Raises QuantityError if a quantity is malformed.
        """
        pools = pools or self.pools
        removed_nodes = [existing.states[existing.rows[name]] for name in without]

        # Assign the pods to topology groups, except for pods with a missing volume
        volumes = {pod.key: self.volumes.find_node_requirements(pod) for pod in pods}
        assignable_pods = {pod.key: pod for pod in pods if volumes[pod.key] is not None}
        topology = self._build_run_topology(pools.domains, removed_nodes, excluded=assignable_pods)
        pod_data = []
        for pod in pods:
            assigned_pod = topology.assign_to_groups(pod) if pod.key in assignable_pods else pod
            pod_data.append(self._prepare_pod_for_scheduling(assigned_pod, volumes[pod.key]))
        topology.register_hosts(existing.hosts - {state.hostname for state in removed_nodes})

        # Place the pods on the remaining nodes and on new nodes
        excluded_nodes = existing.rows if new_nodes_only else without
        run = SchedulerRun(
            pools.templates if templates is None else templates,
            pools.groups,
            RunNodes(existing, excluded_nodes),
            remaining=self.compute_remaining_limits(removed_nodes, pools.node_pools),
            settings=self._build_run_settings(topology, strict_reservations=strict_reservations),
            movable=frozenset(movable),
        )
        run.place_pods(pod_data)
        return run

    def _prepare_pod_for_scheduling(self, pod: Pod, volumes: Sequence[Requirements] | None) -> PodData:
        """Build the PodData with which Karpenter schedules the pod.

        ``volumes`` are the alternative node requirements of the pod's volumes. If ``volumes`` is None because a volume
        is missing, the pod is scheduled as if its volumes required nothing.
        """
        return build_pod_data(
            pod,
            tuple(volumes or ()),
            self.volumes.map_claims_by_driver(pod),
            ignores_preferences=self.options.ignores_preferences,
        )

    def _build_run_topology(
        self, domains: dict[str, Domains], removed_nodes: Sequence[StateNode], excluded: Mapping[str, Pod]
    ) -> RunTopology:
        """Build the topology of a run, which counts existing pods except excluded pods and pods on removed nodes."""
        return RunTopology(
            domains,
            self.counts,
            removed_nodes,
            excluded=excluded,
            namespaces=self.namespaces,
            ignores_preferences=self.options.ignores_preferences,
        )

    @cached_property
    def _reservation_capacities(self) -> dict[str, int]:
        """The number of instances of each capacity reservation, by the reservation's id."""
        return collect_reservation_capacities(
            instance_type for columns in self._type_columns.values() for instance_type in columns.types
        )

    def _build_run_settings(self, topology: RunTopology, *, strict_reservations: bool) -> RunSettings:
        """Build the settings that all NodeClaims of a run share, from the options and NodePools.

        With ``strict_reservations``, a NodeClaim fails rather than lose or miss reserved capacity.
        """
        return RunSettings(
            topology,
            Reservations(self._reservation_capacities),
            self.options.feature_gates.reserved_capacity,
            strict_reservations=strict_reservations,
            ignores_preferences=self.options.ignores_preferences,
            relaxes_min_values=self.options.relaxes_min_values,
            tolerates_prefer_no_schedule=self.pools.has_soft_taints,
        )
