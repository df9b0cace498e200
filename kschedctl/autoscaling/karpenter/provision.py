"""A replay of Karpenter's provisioning: the nodes launched for pending pods, and each pool's answer to a pod.

A run's claims become the NodeClaims that Karpenter would create. Upstream: Schedule in
pkg/controllers/provisioning/provisioner.go, and in its folder scheduling/ ToNodeClaim in nodeclaimtemplate.go and
TruncateInstanceTypes in scheduler.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.api.objects import Pod, Taint
from kschedctl.api.pod_requests import parse_quantities
from kschedctl.api.quantity import Quantity
from kschedctl.autoscaling.karpenter.claims import NewClaim, describe_unmet_min_values
from kschedctl.autoscaling.karpenter.existing_nodes import ExistingColumns
from kschedctl.autoscaling.karpenter.instance_types import InstanceType, read_instance_types
from kschedctl.autoscaling.karpenter.labels import (
    CAPACITY_OVERLAID,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    PRICE_OVERLAID,
    SIMULATION_LABELS,
)
from kschedctl.autoscaling.karpenter.nearest_miss import find_nearest_miss
from kschedctl.autoscaling.karpenter.overlays import SUCCEEDED, AppliedOverlays
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.scheduler import SchedulerRun
from kschedctl.autoscaling.karpenter.setting import (
    NO_POOLS,
    KarpenterSetting,
    explain_unusable_pool,
    read_karpenter_options,
)
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns, find_capacity_types, find_offerings
from kschedctl.cluster import Cluster
from kschedctl.reports.karpenter import (
    CheapestOffering,
    ClaimOfferings,
    ClaimTaint,
    GivenUp,
    KarpenterEvent,
    LaunchedClaim,
    NominatedNode,
    OverlayVerdict,
    PoolAnswer,
    Provisioning,
    ProvisioningError,
    RequirementTerm,
)

MAX_SEPARATE_ANSWERS = 8
"""Maximum number of pods, and of kinds of pods, that are tried against each NodePool separately."""


def provision(
    cluster: Cluster,
    instance_types: Sequence[JsonObject],
    options: Mapping[str, object] | None = None,
    *,
    now: str,
    explains: bool = True,
) -> Provisioning:
    """Replay the next provisioning run of Karpenter (v1.14).

    ``instance_types`` have the format of kwok's instance_types.json. ``options`` may hold preferencePolicy,
    minValuesPolicy, featureGates and maxInstanceTypes. ``now`` is an RFC 3339 time. Without ``explains``, the report
    omits the answers and obstacles of each NodePool, which take further runs. Raises InputError if an argument is
    invalid.
    """
    setting = KarpenterSetting.for_cluster(
        cluster, read_instance_types(instance_types), read_karpenter_options(options or {}), now
    )
    return ProvisioningRun(setting, explains).run()


class ProvisioningRun:
    """A provisioning run for all pending pods, with further runs that explain it."""

    def __init__(self, setting: KarpenterSetting, explains: bool = True) -> None:
        self.setting, self.explains = setting, explains

    def run(self) -> Provisioning:
        """Run the scheduler for pending pods and pods of deleting nodes, and report the result.

        The scheduler runs only if there are such pods and usable pools. Without usable pools, the report has an error
        and, for each pod, the reasons why each pool is unusable.
        """
        setting = self.setting
        base = Provisioning(
            node_classes=dict(self._iter_class_faults()),
            pending=tuple(sorted(pod.key for pod in setting.pending)),
            rejected=tuple(
                KarpenterEvent("Pod", key, "FailedScheduling", error)
                for key, error in setting.rejections.items()
                if error
            ),
            deleting_node_pods=tuple(sorted(pod.key for pod in setting.reschedulable_deleting_pods)),
            overlays=tuple(iter_overlay_verdicts(setting.overlays)),
        )
        pods = [*setting.pending, *setting.reschedulable_deleting_pods]
        if not pods:
            return base
        if not setting.pools.node_pools:
            pools = setting.cluster.karpenter_node_pools
            reasons = {pool.metadata.name: (explain_unusable_pool(setting, pool),) for pool in pools}
            missing = {pod.key: reasons for pod in pods} if reasons else {}
            return replace(base, scheduler_error=NO_POOLS, missing=missing)
        return self._add_run_results(base, pods)

    def _iter_class_faults(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each pool whose node class is faulty or was not read, with a description."""
        classes = self.setting.node_classes
        for pool in self.setting.cluster.karpenter_node_pools:
            fault = classes.describe_class_fault(pool) or classes.describe_unread_class(pool)
            if fault:
                yield pool.metadata.name, fault

    def _add_run_results(self, base: Provisioning, pods: Sequence[Pod]) -> Provisioning:
        """Run the scheduler for the pods, and return the report ``base`` with the results of the run.

        NodeClaims whose instance types cannot be truncated are dropped, and their pods get the error.
        """
        setting = self.setting
        # When Karpenter provisions, no node counts as settling
        existing = setting.build_existing_node_columns(setting.pools, lambda node: False)
        run = setting.run_scheduler(pods, existing, movable=[pod.key for pod in pods])
        errors = dict(run.errors)
        valid_claims = []
        for claim in run.claims:
            fault = self._truncate_claim_types(claim)
            if fault:
                errors.update({pod.key: (fault,) for pod in claim.pods})
            else:
                valid_claims.append(claim)

        pool_answers = {}
        missing = {}
        if self.explains:
            pool_answers = self._collect_pool_answers(existing, run.current_pods)
            missing = self._find_obstacles_per_pool(errors, {pod.key: pod for pod in pods}, existing)
        return replace(
            base,
            templates=tuple(template.name for template in setting.pools.templates),
            pool_events=setting.pools.events,
            new_node_claims=tuple(
                build_launched_claim(claim, setting.options.max_instance_types) for claim in valid_claims
            ),
            claim_offerings=tuple(_summarize_offerings(claim) for claim in valid_claims),
            existing_nodes=tuple(iter_nominated_nodes(run)),
            pod_errors={
                key: ProvisioningError("; ".join(pod_errors), pod_errors) for key, pod_errors in sorted(errors.items())
            },
            relaxations=tuple(GivenUp(relaxation.pod, relaxation.reason) for relaxation in run.relaxations),
            limits_exceeded=dict(self._iter_exceeded_limits()),
            per_pool=pool_answers,
            missing=missing,
        )

    def _find_obstacles_per_pool(
        self, errors: Mapping[str, tuple[str, ...]], pods: Mapping[str, Pod], existing: ExistingColumns
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return the obstacles that each NodePool has for each failed pod, by pod key and then by pool.

        ``errors`` are the errors by pod. Pods of the same kind share an answer, and at most MAX_SEPARATE_ANSWERS kinds
        are examined.
        """
        templates = {template.name: template for template in self.setting.pools.all_templates}

        def find_obstacles(pod: Pod, pool: NodePool) -> tuple[str, ...]:
            """Return why the pool's template does not fit the pod, or why the pool cannot be used at all."""
            template = templates.get(pool.metadata.name)
            if template is None:
                return (explain_unusable_pool(self.setting, pool),)
            return find_nearest_miss(self.setting, pod, template, existing).obstacles

        pools = self.setting.cluster.karpenter_node_pools
        by_kind: dict[bytes, dict[str, tuple[str, ...]]] = {}
        missing: dict[str, dict[str, tuple[str, ...]]] = {}
        for key, pod_errors in sorted(errors.items()):
            kind = _build_pod_kind_key(pods[key], pod_errors)
            if kind not in by_kind:
                if len(by_kind) == MAX_SEPARATE_ANSWERS:
                    continue
                by_kind[kind] = {pool.metadata.name: find_obstacles(pods[key], pool) for pool in pools}
            missing[key] = by_kind[kind]
        return missing

    def _truncate_claim_types(self, claim: NewClaim) -> str:
        """Drop all but the claim's cheapest instance types. Return an error if the claim has to be dropped, or ""."""
        options = self.setting.options
        return truncate_instance_types(claim, options.max_instance_types, strict=not options.relaxes_min_values)

    def _iter_exceeded_limits(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each pool whose nodes already exceed a limit, with the resulting error.

        The error names only the first exceeded limit.
        """
        for pool in self.setting.pools.node_pools:
            limits = parse_quantities(pool.spec.limits or {})
            used = self.setting.used_capacity.get(pool.metadata.name, {})
            for name, amount in used.items():
                if name in limits and amount > limits[name]:
                    limit, usage = _render_without_suffix(limits[name]), _render_without_suffix(amount)
                    numbers = f"limit={limit}, resource-name={name}, usage={usage}"
                    yield pool.metadata.name, f"resource usage exceeds limit ({numbers})"
                    break

    def _collect_pool_answers(
        self, existing: ExistingColumns, pods: dict[str, Pod]
    ) -> dict[str, dict[str, PoolAnswer]]:
        """Return each pool's answer to each of the first MAX_SEPARATE_ANSWERS pending pods, by pod and pool.

        ``pods`` are the pods by key, and are replaced by their relaxed forms.
        """
        templates = {template.name: template for template in self.setting.pools.templates}
        names = [pool.metadata.name for pool in self.setting.cluster.karpenter_node_pools]
        answers: dict[str, dict[str, PoolAnswer]] = {}
        for key in sorted(pod.key for pod in self.setting.pending)[:MAX_SEPARATE_ANSWERS]:
            answers[key] = {name: self.try_pool_alone(key, pods, templates.get(name), existing) for name in names}
        return answers

    def try_pool_alone(
        self, pod_key: str, pods: dict[str, Pod], template: ClaimTemplate | None, existing: ExistingColumns
    ) -> PoolAnswer:
        """Schedule one pod with a single pool, and return the instance types to launch, or why the pool launches none.

        ``template`` is the pool's template, or None if the pool cannot be used. Existing nodes are not considered for
        the pod. If the run drops preferences of the pod, the pod with the key ``pod_key`` in ``pods`` is replaced by
        the pod without these preferences.
        """
        if template is None:
            return PoolAnswer(skipped=True)
        run = self.setting.run_scheduler([pods[pod_key]], existing, templates=[template], new_nodes_only=True)
        pods |= run.current_pods
        relaxations = tuple(relaxation.reason for relaxation in run.relaxations)
        if not run.claims:
            return PoolAnswer(error="; ".join(run.errors.get(pod_key, ())), relaxations=relaxations)
        (claim,) = run.claims
        if fault := self._truncate_claim_types(claim):
            return PoolAnswer(error=fault, relaxations=relaxations)

        # List the claim's instance types, cheapest first
        columns = claim.template.columns
        order = columns.sort_types_by_price(claim.options, claim.requirements)
        type_names = tuple(columns.types[row].name for row in order)
        return PoolAnswer(type_names, _find_cheapest_offering(columns, claim), relaxations=relaxations)


def _build_pod_kind_key(pod: Pod, errors: tuple[str, ...]) -> bytes:
    """Return a key that is equal for pods with equal errors, namespace, labels and scheduling demands."""
    spec = pod.spec
    claims = [volume.persistent_volume_claim for volume in spec.volumes if volume.persistent_volume_claim]
    demands = (spec.node_selector, spec.affinity, spec.tolerations, spec.topology_spread_constraints, claims)
    containers = [(container.resources, container.ports) for container in (*spec.init_containers, *spec.containers)]
    return msgspec.json.encode((errors, pod.metadata.namespace, pod.metadata.labels, demands, containers))


def iter_overlay_verdicts(overlays: AppliedOverlays | None) -> Iterator[OverlayVerdict]:
    """Yield the verdict on each NodeOverlay, sorted by name.

    `overlays` is None, and nothing is yielded, if the feature gate NodeOverlay is off.
    """
    if overlays is None:
        return
    for name, result in overlays.results.items():
        yield OverlayVerdict(name, str(result.reason == SUCCEEDED), result.reason, result.message)


def iter_nominated_nodes(run: SchedulerRun) -> Iterator[NominatedNode]:
    """Yield the existing nodes on which the run placed pods, with the keys of these pods."""
    for node in run.nodes.used:
        yield NominatedNode(node.existing.state.name, tuple(pod.key for pod in node.pods))


def _render_without_suffix(amount: Quantity) -> str:
    """Render an amount as a number without a suffix. An amount with decimal places is rendered as a quantity."""
    if amount.scale < 0:
        return str(amount)
    return str(Fraction(amount.mantissa) * Fraction(10) ** amount.scale)


def truncate_instance_types(claim: NewClaim, max_instance_types: int, *, strict: bool) -> str:
    """Drop all but the claim's cheapest instance types.

    With ``strict``, return an error and leave the claim unchanged if the remaining types would not meet minValues.
    Otherwise, return "".
    """
    columns = claim.template.columns
    chosen = claim.sort_options_by_price()[:max_instance_types]
    options = np.zeros(len(columns), np.bool_)
    options[chosen] = True
    if strict and claim.requirements.have_min_values:
        too_few = columns.find_unmet_min_values(options, claim.requirements)
        if too_few:
            return (
                "pod didn’t schedule because NodePool couldn’t meet minValues requirements, validating minValues, "
                f"{describe_unmet_min_values(too_few)} (NodePool={claim.template.name})"
            )
    claim.options = options
    return ""


def build_launched_claim(claim: NewClaim, max_instance_types: int) -> LaunchedClaim:
    """Build the NodeClaim that Karpenter would create for a claim of a scheduling run.

    The requirements of the NodeClaim name at most ``max_instance_types`` instance types, the cheapest ones.
    ``instance_types`` lists all types of the claim with their prices, the cheapest first.
    """
    template = claim.template
    columns = template.columns
    prices = columns.compute_cheapest_prices(claim.requirements)
    rows_by_price = columns.sort_types_by_price(claim.options, claim.requirements)

    # The NodeClaim names only the cheapest types, and lacks the labels that exist only in simulations
    named_rows = rows_by_price[:max_instance_types]
    narrowed = _narrow_to_named_types(claim, named_rows)
    node_claim_requirements = {key: term for key, term in narrowed.items() if key not in SIMULATION_LABELS}

    spec = template.pool.spec.template.spec
    return LaunchedClaim(
        node_pool=template.name,
        pods=tuple(pod.key for pod in claim.pods),
        scheduling_requirements=_build_requirement_terms(claim.requirements),
        instance_types=tuple((columns.types[row].name, float(prices[row])) for row in rows_by_price),
        cheapest=_find_cheapest_offering(columns, claim),
        requirements=_build_requirement_terms(Requirements(node_claim_requirements)),
        requests={name: str(amount) for name, amount in claim.requests.items()},
        labels={**template.labels, **_choose_custom_labels(claim, narrowed)},
        annotations=_build_annotations(claim, [columns.types[row] for row in named_rows]),
        taints=_build_claim_taints(spec.taints),
        startup_taints=_build_claim_taints(spec.startup_taints),
    )


def _summarize_offerings(claim: NewClaim) -> ClaimOfferings:
    """Return the known zones and capacity types of the offerings that a claim could use."""
    offerings = find_offerings(claim.template.columns, claim.options, claim.requirements)
    zones = {offering.zone for offering in offerings if offering.zone}
    capacity_types = {offering.capacity_type for offering in offerings if offering.capacity_type}
    return ClaimOfferings(tuple(sorted(zones)), tuple(sorted(capacity_types)))


def _find_cheapest_offering(columns: TypeColumns, claim: NewClaim) -> CheapestOffering | None:
    """Return the claim's lowest price and all its offerings at this price, or None if it has no offerings."""
    chosen = np.flatnonzero(columns.find_matching_offerings(claim.requirements) & claim.options[columns.type_of])
    if not len(chosen):
        return None
    price = columns.prices[chosen].min()
    descriptions = []
    for index in chosen[columns.prices[chosen] == price].tolist():
        offering = columns.offerings[index]
        type_name = columns.types[columns.type_of[index]].name
        descriptions.append(f"{type_name}|{offering.zone}|{offering.capacity_type}")
    return CheapestOffering(float(price), tuple(sorted(descriptions)))


def _narrow_to_named_types(claim: NewClaim, named_types: Sequence[int]) -> Requirements:
    """Return the claim's requirements, narrowed to the named instance types and their capacity types.

    ``named_types`` are indexes of instance types in the claim's template.
    """
    columns = claim.template.columns
    requirements = Requirements(claim.requirements)
    names = (columns.types[index].name for index in named_types)
    min_values = requirements.get_requirement(INSTANCE_TYPE).min_values
    requirements.add([LabelRequirement.from_operator(INSTANCE_TYPE, IN, names, min_values)])
    is_named = np.zeros(len(columns), np.bool_)
    is_named[list(named_types)] = True
    if capacity_types := find_capacity_types(columns, is_named, requirements):
        requirements.add([LabelRequirement.from_operator(CAPACITY_TYPE, IN, capacity_types)])
    return requirements


def _build_annotations(claim: NewClaim, named_types: Sequence[InstanceType]) -> dict[str, str]:
    """Return the annotations of a new NodeClaim.

    Besides the annotations of the pool, one says whether minValues were relaxed, and one marks each kind of overlay
    that applies to the instance types.
    """
    annotations = dict(claim.template.pool.spec.template.metadata.annotations)
    annotations[MIN_VALUES_RELAXED] = str(claim.min_values_relaxed).lower()
    if any(offering.overlaid for instance_type in named_types for offering in instance_type.offerings):
        annotations[PRICE_OVERLAID] = "true"
    if any(instance_type.overlaid for instance_type in named_types):
        annotations[CAPACITY_OVERLAID] = "true"
    return annotations


def _choose_custom_labels(claim: NewClaim, requirements: Requirements) -> dict[str, str]:
    """Choose a value for each required label that is not well known.

    Labels that may have any value are left out.
    """
    excluded = claim.template.well_known | SIMULATION_LABELS
    values = {key: requirement.choose_value() for key, requirement in requirements.items() if key not in excluded}
    return {key: value for key, value in values.items() if value}


def _build_requirement_terms(requirements: Requirements) -> tuple[RequirementTerm, ...]:
    """Convert requirements to the report's terms, sorted by key."""
    return tuple(
        RequirementTerm(*term) for key in sorted(requirements) for term in requirements[key].to_selector_terms()
    )


def _build_claim_taints(taints: Iterable[Taint]) -> tuple[ClaimTaint, ...]:
    """Convert taints to the report's form."""
    return tuple(ClaimTaint(taint.key, taint.value, taint.effect) for taint in taints)
