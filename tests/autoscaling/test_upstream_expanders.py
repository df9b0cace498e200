"""Check the expanders against upstream's own tables, under their names.

Upstream: expander/{leastnodes,mostpods,priority,waste}/*_test.go (1.36). Not here: "no valid options" and the invalid
one of "6 valid options, 1 invalid option, 3 equal", which has no node: the loop keeps no such option.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kschedctl.api.objects import ConfigMap, Node, NodeStatus, ObjectMeta, Pod
from kschedctl.autoscaling.cluster_autoscaler.expanders import Expanders, Option
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup
from kschedctl.cel.library import regular_expressions

PRIORITIES = """
5:
  - ".*t2\\\\.micro.*"
10:
  - ".*t2\\\\.large.*"
  - ".*t3\\\\.large.*"
50:
  - ".*m4\\\\.4xlarge.*"
"""
ONE_ENTRY = '10: [".*t2\\\\.large.*"]'
WILDCARD = '5: [".*"]\n10: [".t2\\\\.large.*"]'


class Offer(NamedTuple):
    """A group, its number of new nodes and of pods that they take, and the CPU and memory of a node in pods."""

    group: str
    nodes: int = 1
    pods: int = 1
    cpu: int = 16
    memory: int = 16


def build_offers(*counts: int) -> tuple[Offer, ...]:
    return tuple(Offer(f"EO{at}", count) for at, count in enumerate(counts) if count)


MICRO, T2_LARGE, T3_LARGE, XLARGE = (
    Offer(f"my-asg.{size}") for size in ("t2.micro", "t2.large", "t3.large", "m4.4xlarge")
)
BALANCED, HIGHMEM, LOWCPU = Offer("balanced"), Offer("highmem", memory=32), Offer("lowcpu", cpu=8)
BY_SIZE: dict[str, tuple[str, tuple[Offer, ...], set[str]]] = {
    "TestLeastNodes: no options": ("least-nodes", (), set()),
    "TestLeastNodes: 1 valid option": ("least-nodes", build_offers(2), {"EO0"}),
    "TestLeastNodes: 2 valid options, not equal": ("least-nodes", build_offers(2, 1), {"EO1"}),
    "TestLeastNodes: 3 valid options, 2 equal": ("least-nodes", build_offers(6, 2, 2), {"EO1", "EO2"}),
    "TestLeastNodes: 3 valid options, all equal": ("least-nodes", build_offers(8, 8, 8), {"EO0", "EO1", "EO2"}),
    "TestLeastNodes: 6 valid options, 1 invalid option, 3 equal": (
        *("least-nodes", build_offers(23, 0, 5, 8, 5, 5, 22)),
        {"EO2", "EO4", "EO5"},
    ),
    "TestMostPods: one": ("most-pods", (Offer("EO0", pods=0),), {"EO0"}),
    "TestMostPods: two": ("most-pods", (Offer("EO0", pods=0), Offer("EO1")), {"EO1"}),
    "TestMostPods: three": ("most-pods", (Offer("EO0", pods=0), Offer("EO1"), Offer("EO1b")), {"EO1", "EO1b"}),
    "TestLeastWaste: without any pods, one node info": ("least-waste", (BALANCED._replace(pods=0),), {"balanced"}),
    "TestLeastWaste: one pod, one node info": ("least-waste", (BALANCED,), {"balanced"}),
    "TestLeastWaste: one pod, two node infos": ("least-waste", (BALANCED, HIGHMEM), {"balanced"}),
    "TestLeastWaste: one pod, three node infos": ("least-waste", (BALANCED, HIGHMEM, LOWCPU), {"lowcpu"}),
}
"""Name -> the expander, the options, and the options that it keeps."""
BY_PRIORITY: dict[str, tuple[str, tuple[Offer, ...], tuple[Offer, ...]]] = {
    "TestPriorityExpanderCorrecltyFiltersSingleMatchingOptionOutOfOne": (PRIORITIES, (T2_LARGE,), (T2_LARGE,)),
    "TestPriorityExpanderCorrecltyFiltersSingleMatchingOptionOutOfMany": (PRIORITIES, (T2_LARGE, XLARGE), (XLARGE,)),
    "TestPriorityExpanderFiltersToHigherPriorityMatch": (WILDCARD, (T2_LARGE, MICRO), (T2_LARGE,)),
    "TestPriorityExpanderCorrecltyFiltersTwoMatchingOptionsOutOfMany": (
        *(PRIORITIES, (T2_LARGE, T3_LARGE, MICRO)),
        (T2_LARGE, T3_LARGE),
    ),
    "TestPriorityExpanderCorrecltyFallsBackToAllWhenNoMatches": (
        PRIORITIES,
        (T2_LARGE, T3_LARGE),
        (T2_LARGE, T3_LARGE),
    ),
    "TestPriorityExpanderCorrecltyHandlesConfigUpdate: before": (ONE_ENTRY, (T2_LARGE, T3_LARGE, XLARGE), (T2_LARGE,)),
    "TestPriorityExpanderCorrecltyHandlesConfigUpdate: after": (PRIORITIES, (T2_LARGE, T3_LARGE, XLARGE), (XLARGE,)),
    "TestPriorityExpanderCorrecltySkipsBadChangeConfig": (
        *("", (T2_LARGE, T3_LARGE, XLARGE)),
        (T2_LARGE, T3_LARGE, XLARGE),
    ),
}
NOT_FOUND = "Priority expander: node group {} not found in priority expander configuration. The group won't be used."
EMPTY = (
    "Wrong configuration for priority expander: priority configuration in cluster-autoscaler-priority-expander"
    " configmap is empty; please provide valid configuration. Ignoring update."
)
EVENTS = {
    "TestPriorityExpanderCorrecltyHandlesConfigUpdate: before": [
        ("Warning", "PriorityConfigMapNotMatchedGroup", NOT_FOUND.format(offer.group)) for offer in (T3_LARGE, XLARGE)
    ],
    "TestPriorityExpanderCorrecltySkipsBadChangeConfig": [("Warning", "PriorityConfigMapInvalid", EMPTY)],
}


def choose_groups(
    expander: str, offers: tuple[Offer, ...], priorities: str | None = None
) -> tuple[set[str], list[object]]:
    """Return the groups that the expander keeps, and its messages."""
    options = [Option(AutoscaledGroup(o.group, 0, 10, 1), o.nodes, (Pod(),) * o.pods) for o in offers]
    templates = {
        o.group: Node(status=NodeStatus(capacity={"cpu": f"{o.cpu * 500}m", "memory": f"{o.memory * 1000}Mi"}))
        for o in offers
    }
    config_map = None if priorities is None else ConfigMap(ObjectMeta("m", "n"), {"priorities": priorities})
    events: list[tuple[str, str, str]] = []
    requests = {"cpu": 500, "memory": 1000 * 2**20}
    best, tied = Expanders(templates, lambda pod: requests, config_map, events).choose_expansion_option(
        expander, options
    )
    return set(tied or ([best.group.id] if best else [])), list(events)


@pytest.mark.parametrize("name", BY_SIZE)
def test_best_options(name: str) -> None:
    expander, offers, expected = BY_SIZE[name]
    assert choose_groups(expander, offers) == (expected, [])


@pytest.mark.parametrize("name", BY_PRIORITY)
def test_best_options_by_priority(name: str) -> None:
    priorities, offers, expected = BY_PRIORITY[name]
    assert choose_groups("priority", offers, priorities) == ({offer.group for offer in expected}, EVENTS.get(name, []))


SIMPLE = '10: ["^my-asg.*large$"]\n5: [".*"]'
WITH_A_FLAG = '10: ["(?i)T2"]\n5: [".*"]'


def test_simple_expressions_need_no_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_expressions, "has_re2", lambda: False)
    assert choose_groups("priority", (MICRO, T2_LARGE), SIMPLE) == ({"my-asg.t2.large"}, [])


def test_expression_that_needs_re2_keeps_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is expected, because the autoscaler itself can run the expression."""
    monkeypatch.setattr(regular_expressions, "has_re2", lambda: False)
    assert choose_groups("priority", (MICRO, XLARGE), WITH_A_FLAG) == ({"my-asg.t2.micro", "my-asg.m4.4xlarge"}, [])
    options = [Option(AutoscaledGroup(offer.group, 0, 10, 1), 1, (Pod(),)) for offer in (MICRO, XLARGE)]
    expanders = Expanders({}, lambda pod: {}, ConfigMap(ObjectMeta("m", "n"), {"priorities": WITH_A_FLAG}), [])
    expanders.choose_expansion_option("priority", options)
    (doubt,) = expanders.doubts
    assert doubt.startswith('the priority expander chooses by "(?i)T2", a pattern that only RE2 can evaluate')
