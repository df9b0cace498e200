"""Topology spread constraints: how far pods may bunch, and which domains count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from kschedctl.api.objects import Pod, TopologySpreadConstraint
from kschedctl.scheduler.facts import TooSkewed, TopologyLabelMissing
from kschedctl.studies.remedies.changes import Fix, on_pod
from kschedctl.studies.remedies.targets import NodeRefusal, Site
from kschedctl.studies.remedies.ways.node_labels import near_keys

CORRECT, HONOUR, MIN_DOMAINS, MORE_SKEW, ANYWAY = 10, 15, 40, 45, 55
UNEVEN = "pods may be spread less evenly over {key}"


def skewed(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """The constraint on the topology of the fact, in each form that lets more nodes in."""
    match refusal.fact:
        case TooSkewed(key=key, skew=skew):
            for place, constraint in _hard(site.trial.pod, key):
                yield from _relaxed(site, place, constraint, skew)
        case TopologyLabelMissing(key=key):
            for place, constraint in _hard(site.trial.pod, key):
                yield from _other_key(site, place, constraint)
                yield _anyway(site, place, constraint)


def _hard(pod: Pod, key: str) -> list[tuple[int, TopologySpreadConstraint]]:
    """The constraints on that topology that keep pods from nodes."""
    own = enumerate(pod.spec.topology_spread_constraints)
    return [(i, each) for i, each in own if each.topology_key == key and each.when_unsatisfiable == "DoNotSchedule"]


def _relaxed(site: Site, place: int, constraint: TopologySpreadConstraint, skew: int) -> Iterator[Fix]:
    key = constraint.topology_key
    if constraint.node_taints_policy != "Honor":
        text = f"spread over {key} without counting nodes whose taints it does not tolerate (nodeTaintsPolicy: Honor)"
        yield _change(site, place, "NodeTaintsPolicy", text, HONOUR, node_taints_policy="Honor")
    if (constraint.min_domains or 1) > 1:
        text = f"spread over {key} without minDomains {constraint.min_domains}"
        yield _change(site, place, "MinDomains", text, MIN_DOMAINS, weakens=UNEVEN.format(key=key), min_domains=None)
    if skew > constraint.max_skew:
        text = f"allow a skew of {skew} instead of {constraint.max_skew} over {key}"
        yield _change(site, place, "MaxSkew", text, MORE_SKEW, weakens=UNEVEN.format(key=key), max_skew=skew)
    yield _anyway(site, place, constraint)


def _anyway(site: Site, place: int, constraint: TopologySpreadConstraint) -> Fix:
    key = constraint.topology_key
    text = f"prefer to spread over {key} instead of requiring it (whenUnsatisfiable: ScheduleAnyway)"
    soft = {"when_unsatisfiable": "ScheduleAnyway", "min_domains": None}
    return _change(site, place, "ScheduleAnyway", text, ANYWAY, weakens=UNEVEN.format(key=key), **soft)


def _other_key(site: Site, place: int, constraint: TopologySpreadConstraint) -> Iterator[Fix]:
    for right in near_keys(constraint.topology_key, site.cycle.view.nodes):
        text = f"spread over {right} instead of {constraint.topology_key}"
        yield _change(site, place, "CorrectTopologyKey", text, CORRECT, topology_key=right)


def _change(site: Site, place: int, kind: str, text: str, cost: int, *, weakens: str = "", **fields: Any) -> Fix:
    """One constraint with other fields."""

    def change(pod: Pod) -> Pod:
        found = list(pod.spec.topology_spread_constraints)
        found[place] = replace(found[place], **fields)
        return replace(pod, spec=replace(pod.spec, topology_spread_constraints=tuple(found)))

    target = (place, *fields.items())
    return Fix(kind, target, text, "author", on_pod(site.trial.pod, change), cost, weakens)
