"""Conversion of a run's claims to the NodeClaims that Karpenter would create.

Upstream: ToNodeClaim in pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go, TruncateInstanceTypes in
scheduler.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kschedctl.api.objects import Taint
from kschedctl.autoscaling.karpenter.claims import NewClaim, describe_unmet_min_values
from kschedctl.autoscaling.karpenter.instance_types import InstanceType
from kschedctl.autoscaling.karpenter.labels import (
    CAPACITY_OVERLAID,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    PRICE_OVERLAID,
    SIMULATION_LABELS,
)
from kschedctl.autoscaling.karpenter.requirements import IN, LabelRequirement, Requirements
from kschedctl.autoscaling.karpenter.type_columns import TypeColumns, find_capacity_types
from kschedctl.reports.karpenter import CheapestOffering, ClaimTaint, LaunchedClaim, RequirementTerm


def truncate_instance_types(claim: NewClaim, max_instance_types: int, strict: bool) -> str:
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
    """Build the NodeClaim that Karpenter would create for a claim of a run.

    Its requirements name at most ``max_instance_types`` instance types, the cheapest first.
    """
    template = claim.template
    columns = template.columns
    order = columns.sort_types_by_price(claim.options, claim.requirements)
    named_types = order[:max_instance_types]
    prices = columns.find_cheapest_prices(claim.requirements)
    requirements = _narrow_to_named_types(claim, named_types)
    final_requirements = {key: term for key, term in requirements.items() if key not in SIMULATION_LABELS}
    spec = template.pool.spec.template.spec
    return LaunchedClaim(
        node_pool=template.name,
        pods=tuple(pod.key for pod in claim.pods),
        scheduling_requirements=_build_requirement_terms(claim.requirements),
        instance_types=tuple((columns.types[index].name, float(prices[index])) for index in order),
        cheapest=find_cheapest_offering(columns, claim),
        requirements=_build_requirement_terms(Requirements(final_requirements)),
        requests={name: str(amount) for name, amount in claim.requests.items()},
        labels={**template.labels, **_choose_custom_labels(claim, requirements)},
        annotations=_build_annotations(claim, [columns.types[index] for index in named_types]),
        taints=_build_claim_taints(spec.taints),
        startup_taints=_build_claim_taints(spec.startup_taints),
    )


def find_cheapest_offering(columns: TypeColumns, claim: NewClaim) -> CheapestOffering | None:
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
    """Return the claim's requirements, narrowed to instance types, given by row, and to their capacity types."""
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
    """Build a NodeClaim's annotations: the pool's, and marks for relaxed minValues and for overlays."""
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
    return tuple(RequirementTerm(*term) for key in sorted(requirements) for term in requirements[key].to_terms())


def _build_claim_taints(taints: Iterable[Taint]) -> tuple[ClaimTaint, ...]:
    """Convert taints to the report's form."""
    return tuple(ClaimTaint(taint.key, taint.value, taint.effect) for taint in taints)
