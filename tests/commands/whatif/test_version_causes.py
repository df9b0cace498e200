"""Check that `whatif --compare-version` names the change behind each difference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import Json, build_node, build_pod, build_replica

from kschedctl.api.kube_version import VersionMix
from kschedctl.cluster import Cluster
from kschedctl.commands.versions import compare_versions
from kschedctl.commands.whatif import build_version_settings, causes, whatif
from kschedctl.commands.whatif.causes import NOT_ATTRIBUTED, CauseSearch, TwoVersions, find_causes_by_pod
from kschedctl.commands.whatif.report import MessageChange, PodsRescored, WhatIf
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates

NAMES = "abcdefg"
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def build_search(enough: list[frozenset[str]]) -> CauseSearch:
    """Build a search for a pod that is unchanged if all changes of one of these sets are undone."""

    def replay(names: frozenset[str]) -> Callable[[str], bool]:
        return lambda pod: any(each <= names for each in enough)

    return CauseSearch({name: name for name in NAMES}, {"p": True}, replay)


@given(st.lists(st.frozensets(st.sampled_from(NAMES), min_size=1), max_size=4))
def test_smallest_set_of_changes_that_explains_it(enough: list[frozenset[str]]) -> None:
    """No smaller part of the set is enough. Nothing is reported if no set explains the difference."""
    told = build_search(enough).explain_pod("p")
    assert (told == NOT_ATTRIBUTED) == (not enough)
    if enough:
        assert any(each == set(told) for each in enough)
        smaller = [set(some) for number in range(len(told)) for some in combinations(told, number)]
        assert not any(each <= some for each in enough for some in smaller)


def test_change_that_explained_one_pod_is_tried_first_for_the_next() -> None:
    """One of 7 changes matters.

    The first pod takes at most 2 x 3 halves plus all, and equal pods take no further replays.
    """
    replays = []

    def replay(names: frozenset[str]) -> Callable[[str], bool]:
        replays.append(names)
        return lambda pod: "c" in names

    found = CauseSearch({name: name.upper() for name in NAMES}, dict.fromkeys("pqr", True), replay)
    assert found.explain_pod("p") == ("C",)
    first = len(replays)
    assert first <= 7
    assert find_causes_by_pod("qr", found, lambda done: None) == {"q": ("C",), "r": ("C",)}
    assert len(replays) == first


@pytest.mark.parametrize(("likely", "asked"), [("c", 1), ("cd", 2), ("d", 7)])
def test_likely_changes_are_tried_first(likely: str, asked: int) -> None:
    """Change c matters.

    As the only likely change it takes one replay, and as one of two it takes two. If it is not among the likely ones,
    all changes are searched.
    """
    replays = []

    def replay(names: frozenset[str]) -> Callable[[str], bool]:
        replays.append(names)
        return lambda pod: "c" in names

    searched = CauseSearch(
        {name: name.upper() for name in NAMES}, {"p": True}, replay, guess_changes=lambda pod: frozenset(likely)
    )
    assert searched.explain_pod("p") == ("C",)
    assert replays[0] == frozenset(likely)
    assert len(replays) <= asked


def test_changes_of_plugins_with_different_answers_are_likely() -> None:
    """A plugin without a changed rule has no likely change."""
    rows = compare_versions("1.34.1", "1.34.2").changes
    versions = TwoVersions(Cluster(kube_version="1.34.1"), Cluster(kube_version="1.34.2"), rows)
    assert {
        versions.describe_changes()[name].split(":")[0] for name in versions.find_plugin_changes({"TaintToleration"})
    } == {"TaintToleration"}
    assert versions.find_plugin_changes({"NodePorts"}) == frozenset()


def test_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "MAX_REPLAYS", 3)
    assert build_search([frozenset("c")]).explain_pod("p") == NOT_ATTRIBUTED


@pytest.mark.parametrize(("first", "second"), [("1.30", "1.37"), ("1.36", "1.37"), ("1.37", "1.33")])
def test_feature_gates_of_the_other_version(first: str, second: str) -> None:
    rows = compare_versions(first, second).changes
    names = frozenset(TwoVersions(Cluster(kube_version=first), Cluster(kube_version=second), rows).describe_changes())
    mixed, whole = FeatureGates(second, mix=VersionMix(first, names)), FeatureGates(first)
    assert [gate for gate in GATE_STAGES if mixed.enabled(gate) != whole.enabled(gate)] == []


def list_causes(report: WhatIf) -> list[tuple[str, ...]]:
    assert report.replacement
    return [each.because for each in (*report.changes, *report.messages, *report.replacement.elsewhere)]


def test_rule_that_changes_a_message() -> None:
    cluster = Cluster.from_objects([build_node("n1", taints=[TAINT]), build_pod("p"), build_pod("q")])
    (message,) = whatif(cluster, None, build_version_settings(("1.34.1", "1.34.2"))).messages
    assert message.because == ("TaintToleration: reason for an untolerated taint (#134740, backported by #135023)",)
    assert message.pods == ("d/p", "d/q")


def test_several_changes_together() -> None:
    """Before 1.34, DynamicResources says nothing about pods without claims. Up to 1.34.1, the taint is named."""
    cluster = Cluster.from_objects([build_node("n1", taints=[TAINT]), build_pod("p")])
    (message,) = whatif(cluster, None, build_version_settings(("1.33", "1.36"))).messages
    assert [why.split(":")[0] for why in message.because] == ["TaintToleration", "DynamicResources"]


def build_claim(name: str) -> Json:
    spec = {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "d", "uid": name}, "spec": spec}


def build_storage_capacity(node_name: str, capacity: str) -> Json:
    return {
        "kind": "CSIStorageCapacity",
        "metadata": {"name": node_name, "namespace": "d"},
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": node_name}},
        "capacity": capacity,
    }


STORAGE = [
    {
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "csi",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {"kind": "CSIDriver", "metadata": {"name": "csi"}, "spec": {"storageCapacity": True}},
    {"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "csi", "nodeID": "n1"}]}},
    {"kind": "CSINode", "metadata": {"name": "n2"}, "spec": {"drivers": [{"name": "csi", "nodeID": "n2"}]}},
    build_storage_capacity("n1", "4Gi"),
    build_storage_capacity("n2", "40Gi"),
]


def add_claim(made: Json) -> Json:
    made["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    return made


def test_feature_gate_that_changes_a_placement() -> None:
    """n2 has more room for the volume. Otherwise n1 is better, because 1 CPU is used on n2."""
    busy = build_pod("busy", "n2", "1")
    cluster = Cluster.from_objects(
        [build_node("n1"), build_node("n2"), *STORAGE, build_claim("c"), busy, add_claim(build_pod("p"))]
    )
    report = whatif(cluster, None, build_version_settings(("1.36", "1.37")))
    assert [(c.pod, c.before, c.after, c.because) for c in report.changes] == [
        ("d/p", "n1", "n2", ("StorageCapacityScoring",))
    ]
    running = [
        build_node("n1"),
        build_node("n2"),
        *STORAGE,
        build_claim("c"),
        busy,
        add_claim(build_replica("r", "n1")),
    ]
    assert list_causes(whatif(Cluster.from_objects(running), None, build_version_settings(("1.36", "1.37")))) == [
        ("StorageCapacityScoring",)
    ]
    set_by_hand = Cluster.from_objects(running, feature_gates={"StorageCapacityScoring": True})
    assert list_causes(whatif(set_by_hand, None, build_version_settings(("1.36", "1.37")))) == []


def test_no_change_is_searched_for_if_only_the_cluster_changes() -> None:
    cluster = Cluster.from_objects([build_node("n1"), build_pod("p", "n1")])
    report = whatif(cluster, {"steps": [{"cordon": {"nodes": ["n1"]}}]})
    assert all(change.because == () for change in report.changes)
    assert MessageChange("a", "b", ("d/p",)).because == ()


def test_changed_scores_with_the_same_best_node() -> None:
    """On n2, the volume's pool has more room and more CPU is free, so n2 stays the best node with a larger lead."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        *STORAGE,
        build_claim("c"),
        build_pod("busy", "n1", "1"),
        add_claim(build_replica("r", "n2")),
    ]
    found = whatif(Cluster.from_objects(objects), None, build_version_settings(("1.36", "1.37"))).replacement
    assert found is not None
    assert found.elsewhere == ()
    assert found.rescored == (PodsRescored("Deployment d/web", ("d/r",), ("StorageCapacityScoring",)),)
    without_claims = [build_node("n1"), build_node("n2"), build_pod("busy", "n1", "1"), build_replica("r", "n2")]
    found = whatif(Cluster.from_objects(without_claims), None, build_version_settings(("1.36", "1.37"))).replacement
    assert found is not None
    assert (found.elsewhere, found.rescored) == ((), ())
