"""The volume plugins against upstream's own tables (plugins/{volumebinding,volumerestrictions,volumezone,
nodevolumelimits} and component-helpers/storage/volume; v1.36)."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from golden_cases import Json
from plugin_cases import (
    answer,
    build_snapshot,
    compute_scores,
    find_pod_info,
    is_gate_enabled,
    parametrize_cases,
    run_filter,
    run_pre_filter,
)

from kschedctl.api.json_values import drop_nulls
from kschedctl.api.objects import Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim
from kschedctl.cluster import Cluster
from kschedctl.scheduler.plugins.helper.volume_listers import Listers, VolumeReachability
from kschedctl.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kschedctl.scheduler.plugins.volume_binding.capacity_scoring import ClassResources, score_by_utilization
from kschedctl.scheduler.plugins.volume_binding.matching import MatchingError, choose_volume_per_node
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding, VolumeBindingArgs
from kschedctl.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kschedctl.scheduler.plugins.volume_zone import VolumeZone
from kschedctl.snapshot.indexes import ClusterObjects, Indexes
from kschedctl.snapshot.nodes import AllNodes

LEFT_OUT = ["unbound volume immediate binding mode"]
"""Cases whose class has no binding mode, which the API server would set to Immediate, unlike upstream's table."""
REAL_LISTER = {
    "storageclasses.storage.k8s.io": "storageclass.storage.k8s.io",
    "persistentvolumeclaims": "persistentvolumeclaim",
}
"""The tables' listers name resources, where those of a running scheduler name kinds."""


def normalize_wanted(want: Json) -> Json:
    """Return the expected answer in the words of a running scheduler, with sorted reasons."""
    found = {part: want[part] for part in ("prefilter", "filter") if part in want}
    for status in (found["prefilter"], *found.get("filter", {}).values()):
        status["reasons"] = sorted(map(_rename_lister, status["reasons"]))
    return found


def _rename_lister(reason: str) -> str:
    for table, real in REAL_LISTER.items():
        reason = reason.replace(f'{table} "', f'{real} "')
    return reason


@parametrize_cases("volumerestrictions", "filter")
def test_volume_restrictions(case: Json) -> None:
    view = build_snapshot(case)
    assert answer(VolumeRestrictions(), find_pod_info(case, view), view) == normalize_wanted(case["want"])


@parametrize_cases("nodevolumelimits", "filter")
def test_node_volume_limits(case: Json) -> None:
    view = build_snapshot(case)
    plugin = NodeVolumeLimits(is_gate_enabled(case, "VolumeLimitScaling", default=False))
    assert answer(plugin, find_pod_info(case, view), view) == normalize_wanted(case["want"])


@parametrize_cases("volumezone", "filter", left_out=LEFT_OUT)
def test_volume_zone(case: Json) -> None:
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    status, state = run_pre_filter(VolumeZone(), info, view)
    got: Json = {"prefilter": status}
    if "filter" in case["want"]:  # upstream asks Filter even where PreFilter skipped
        got["filter"] = run_filter(VolumeZone(), info, view, state)
    assert got == normalize_wanted(case["want"])


# -- VolumeBinding ------------------------------------------------------------------------------------------------


@parametrize_cases("volumebinding", "filter")
def test_volume_binding(case: Json) -> None:
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    args = msgspec.convert(case["args"], VolumeBindingArgs)
    plugin = VolumeBinding(args.shape, is_gate_enabled(case, "VolumeAttributesClass"))
    got = answer(plugin, info, view)
    assert got == normalize_wanted(case["want"])
    if "prescore" in case["want"]:
        found = compute_scores(plugin, info, view)
        assert found["prescore"]["code"] == case["want"]["prescore"]["code"]
        assert found.get("scores") == case["want"].get("scores")


@parametrize_cases("volumebinding", "findpodvolumes")
def test_find_pod_volumes(case: Json) -> None:
    view = build_snapshot(case)
    info = find_pod_info(case, view)
    status, state = run_pre_filter(VolumeBinding(), info, view)
    want = case["want"]
    if "error" in want:
        assert status["code"] == "UnschedulableAndUnresolvable"
        if "error getting PVC" not in want["error"]:  # PreFilter looks claims up first, and words it its own way
            assert status["reasons"] == [want["error"]]
        return
    reasons = run_filter(VolumeBinding(), info, view, state)[view.nodes.names[0]]["reasons"] if state else []
    assert reasons == want["reasons"]
    if state and not reasons:
        bound = {claim.metadata.name: volume.metadata.name for claim, volume in state.volumes.iter_bindings(0)}
        assert bound == {binding["pvc"]: binding["pv"] for binding in want["staticBindings"]}
        provisioned = [
            {"pvc": p.claim.metadata.name, "nodeCapacity": _get_pool(p)} for p in state.volumes.provisions if p.mask[0]
        ]
        assert provisioned == want["dynamicProvisions"]


def _get_pool(provision: Any) -> str | None:
    chosen = provision.capacity[0]
    return provision.pools[chosen].capacity.metadata.name if chosen >= 0 else None


@parametrize_cases("volumebinding", "capacityscorer")
def test_capacity_scorer(case: Json) -> None:
    points = [(point["Utilization"], point["Score"]) for point in case["shape"]]
    for value in case["want"]["values"]:
        found = value["classResources"].values()
        requested = np.array([[r["Requested"] for r in found]], np.int64).reshape(1, -1)
        capacity = np.array([[r["Capacity"] for r in found]], np.int64).reshape(1, -1)
        resources = ClassResources(requested, capacity, np.ones(requested.shape, np.bool_))
        assert score_by_utilization(points, resources).tolist() == [value["score"]]


def test_empty_storage_counts_as_full() -> None:
    """As in scorer.go, storage of 0 bytes is full, and a byte of which nothing is requested is empty."""
    requested, capacity = np.array([[0], [0], [1], [2]]), np.array([[0], [1], [1], [1]])
    resources = ClassResources(requested, capacity, np.ones((4, 1), np.bool_))
    assert score_by_utilization([(0, 0), (100, 100)], resources).tolist() == [100, 0, 100, 100]


# -- helpers ------------------------------------------------------------------------------------------------------


@parametrize_cases("volumehelpers", "pvnodeaffinity")
def test_volume_node_affinity(case: Json) -> None:
    nodes = AllNodes([Node(ObjectMeta(name="node", labels=case["nodeLabels"]))])
    volume = msgspec.convert(drop_nulls(case["pv"]), PersistentVolume)
    reachable = VolumeReachability(nodes).find_reachable_nodes(volume.spec.node_affinity)
    assert reachable.tolist() == [case["want"]["matches"]]


@parametrize_cases("volumehelpers", "findmatchingvolume")
def test_find_matching_volume(case: Json) -> None:
    """Upstream's volumes share names. Here their UIDs are the names, and excluded volumes are omitted."""
    view = build_snapshot({"nodes": [{**node, "kind": "Node"} for node in case["nodes"]]})
    named = {"nodes": [], "objects": [_rename_to_uid(o) for o in case["objects"] if not _is_excluded(o, case)]}
    volumes = Cluster(persistent_volumes=build_snapshot(named).cluster.persistent_volumes)
    listers = Listers(ClusterObjects(volumes, Indexes()), view.nodes)
    claim = msgspec.convert(case["claim"], PersistentVolumeClaim)
    with_classes = is_gate_enabled(case, "VolumeAttributesClass")
    if "error" in case["want"]:
        with pytest.raises(MatchingError, match=case["want"]["error"]):
            choose_volume_per_node(claim, listers, (), attributes_class=with_classes)
        return
    found = choose_volume_per_node(claim, listers, (), attributes_class=with_classes).find_volume(0)
    assert (found.metadata.name if found else None) == case["want"]["volumeUID"]


def _rename_to_uid(document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "name": document["metadata"]["uid"]}}


def _is_excluded(document: Json, case: Json) -> bool:
    return document["metadata"]["name"] in case["excludedVolumes"]
