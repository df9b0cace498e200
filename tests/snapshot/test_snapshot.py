"""Check the columns of snapshots, sums over pods against naive loops, and forks whose pods move."""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import build_snapshot
from small_clusters import draw_clusters, draw_many, get_labels, get_name

from kschedctl.api.columns import NO_TIME
from kschedctl.api.labels import selector_from_set
from kschedctl.cluster import convert_document
from kschedctl.errors import InputError
from kschedctl.snapshot import pod_infos
from kschedctl.snapshot.pod_info import PodInfo


def build_node(name, labels=None, **allocatable):
    return {"kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "status": {"allocatable": allocatable}}


def build_pod(name, node_name="", priority=0, nominated="", **more):
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": name, "labels": more.get("labels", {})},
        "spec": {"nodeName": node_name, "priority": priority, "schedulerName": more.get("scheduler", "")},
        "status": {"nominatedNodeName": nominated, "phase": more.get("phase", "")},
    }


# -- nodes --------------------------------------------------------------------------------------------------------


def test_label_column_distinguishes_absent_from_empty():
    view = build_snapshot(
        {
            "nodes": [
                build_node("n0", {"zone": "x"}),
                build_node("n1", {"zone": ""}),
                build_node("n2"),
                build_node("n3", {"zone": "x"}),
            ]
        }
    )
    column = view.nodes.label("zone")
    found = dict(zip(view.nodes.names, column.codes.tolist(), strict=True))
    values = {name: column.values[code] if code >= 0 else None for name, code in found.items()}
    assert values == {"n0": "x", "n1": "", "n2": None, "n3": "x"}
    assert column.present.sum() == 3


def test_predicate_is_called_once_per_combination_of_labels():
    view = build_snapshot({"nodes": [build_node(f"n{i}", {"zone": "xy"[i % 2], "rack": str(i)}) for i in range(6)]})
    asked = []

    def in_x(labels, name):
        asked.append(name)
        return labels["zone"] == "x"

    found = view.nodes.evaluate_per_node(in_x, frozenset({"zone"}))
    assert {n for n, yes in zip(view.nodes.names, found, strict=True) if yes} == {"n0", "n2", "n4"}
    assert len(asked) == 2


def test_predicate_is_called_for_the_named_nodes():
    view = build_snapshot({"nodes": [build_node(name, {"zone": zone}) for name, zone in ("ax", "by", "cx", "dy")]})
    asked = []

    def in_x_or_named(labels, name):
        asked.append(name)
        return (labels["zone"] == "x") != (name in {"a", "d"})

    found = view.nodes.evaluate_per_node(in_x_or_named, frozenset({"zone"}), frozenset({"a", "d", "nobody"}))
    assert {n for n, yes in zip(view.nodes.names, found, strict=True) if yes} == {"c", "d"}
    assert sorted(set(asked) & set("abcd")) == ["a", "d"]
    assert len(asked) == 4


def test_allocatable_is_in_millicores_and_bytes():
    view = build_snapshot(
        {"nodes": [build_node("n0", cpu="1500m", memory="1Gi", pods="10", **{"example.com/gpu": "2"})]}
    )
    found = {name: int(view.allocatable[0, column]) for name, column in view.resources.items()}
    assert {name: found[name] for name in ("cpu", "memory", "pods", "example.com/gpu")} == {
        "cpu": 1500,
        "memory": 1 << 30,
        "pods": 10,
        "example.com/gpu": 2,
    }


def test_invalid_amount_names_the_node():
    with pytest.raises(InputError, match=r"Node n0, status\.allocatable"):
        _ = build_snapshot({"nodes": [build_node("n0", cpu="much")]}).allocatable


# -- pods ---------------------------------------------------------------------------------------------------------


def test_equal_pods_share_one_info():
    """The name of the node makes no difference, but being bound does."""
    nodes = [build_node("n0"), build_node("n1")]
    pods = [build_pod("a", "n0"), build_pod("b", "n1"), build_pod("c"), build_pod("d", "n0", labels={"app": "x"})]
    view = build_snapshot({"nodes": nodes, "pods": pods})
    assert len(view.pods.infos) == 3
    assert view.pods.info[0] == view.pods.info[1]


def build_running_pod(pod_name, container, request, **status):
    """Build a pod with one container and its status."""
    made = build_pod(pod_name, "n0")
    made["spec"]["containers"] = [{"name": container, "resources": {"requests": {"cpu": request}}}]
    made["status"]["containerStatuses"] = [{"name": container, **status}]
    return made


def test_pods_with_equal_requests_share_a_demand():
    resized = {"resources": {"requests": {"cpu": "2"}}}
    of_another = {"name": "gone", **resized}
    view = build_snapshot(
        {
            "nodes": [build_node("n0", cpu="32", memory="1Gi")],
            "pods": [
                build_running_pod("p0", "a", "1"),
                build_running_pod("p1", "b", "1"),
                build_running_pod("p2", "c", "1", **resized),
                build_running_pod("p3", "d", "1", **of_another),
                build_running_pod("p4", "e", "3"),
            ],
        }
    )
    by_name = {
        p.metadata.name: int(view.pods.distinct.demand[view.pods.info[i]]) for i, p in enumerate(view.pods.objects)
    }
    assert by_name["p0"] == by_name["p1"] == by_name["p3"]
    assert len({by_name[name] for name in ("p0", "p2", "p4")}) == 3
    cpu = view.requests[view.pods.info, view.resources["cpu"]]
    assert {p.metadata.name: int(cpu[i]) for i, p in enumerate(view.pods.objects)} == {
        "p0": 1000,
        "p1": 1000,
        "p2": 2000,
        "p3": 1000,
        "p4": 3000,
    }


def test_info_is_built_on_first_use():
    view = build_snapshot(
        {"nodes": [build_node("n0")], "pods": [build_pod(f"p{i}", "n0", i, labels={"i": str(i)}) for i in range(5)]}
    )
    infos = view.pods.infos
    assert view.pods.priority.tolist() == [info.priority for info in view.pods.infos[:]]
    assert infos[3] is infos[3]
    assert [info.labels["i"] for info in infos] == list("01234")
    assert infos[-1] is infos[4]
    other = build_snapshot(
        {"nodes": [build_node("n0")], "pods": [build_pod(f"p{i}", "n0", i, labels={"i": str(i)}) for i in range(5)]}
    )
    assert other.requested[0, other.resources["pods"]] == 5
    assert sum(made is not None for made in other.pods.distinct.infos._built_infos) == 1  # they all request nothing


def test_terminated_pods_do_not_count():
    pods = [
        build_pod("a", "n0", phase="Succeeded"),
        build_pod("b", "n0", phase="Failed"),
        build_pod("c", "n0", phase="Running"),
    ]
    view = build_snapshot({"nodes": [build_node("n0")], "pods": pods})
    assert [each.metadata.name for each in view.pods.objects] == ["c"]


def test_pods_on_unknown_nodes_have_no_row():
    view = build_snapshot({"nodes": [build_node("n0")], "pods": [build_pod("a", "gone")]})
    assert view.node.tolist() == [-1]
    assert view.requested[0, view.resources["pods"]] == 0


NOMINATED = {
    "more important": (build_pod("other", priority=2, nominated="n0"), 1),
    "as important": (build_pod("other", priority=1, nominated="n0"), 1),
    "less important": (build_pod("other", priority=0, nominated="n0"), 0),
    "itself": (build_pod("me", priority=1, nominated="n0"), 0),
    "bound by now": (build_pod("other", "n0", priority=2, nominated="n0"), 0),
    "to a node that is gone": (build_pod("other", priority=2, nominated="gone"), 0),
    "of another scheduler": (build_pod("other", priority=2, nominated="n0", scheduler="other"), 0),
}


@pytest.mark.parametrize(("other", "count"), NOMINATED.values(), ids=NOMINATED)
def test_nominated_pods_of_higher_priority(other, count):
    view = build_snapshot({"nodes": [build_node("n0"), build_node("n1")], "pods": [other]})
    me = PodInfo(convert_document(build_pod("me", priority=1)), view.settings.requests)
    delta = view.build_nominated_delta_against(me)
    assert delta.sign.tolist() == [1] * count
    assert [view.nodes.names[row] for row in delta.node] == ["n0"] * count


# -- sums ---------------------------------------------------------------------------------------------------------


def draw_containers(random):
    """Draw containers that request CPU, or nothing at all."""
    return {"containers": draw_many(random, 2, lambda r: {"resources": r.choice([{}, {"requests": {"cpu": "300m"}}])})}


@given(draw_clusters(running=draw_containers))
def test_sums_by_node(cluster):
    view = cluster.view()
    for row, name in enumerate(view.nodes.names):
        here = [p for p in cluster.pods if p["spec"]["nodeName"] == name]
        containers = [c["resources"].get("requests") for p in here for c in p["spec"]["containers"]]
        assert view.requested[row, view.resources["pods"]] == len(here)
        assert view.requested[row, view.resources["cpu"]] == 300 * sum(c is not None for c in containers)
        assert view.nonzero_requested[row, view.resources["cpu"]] == sum(300 if c else 100 for c in containers)
        selected = view.pods.match_infos(selector_from_set({"app": "x"}), frozenset({"a"}))
        matching = [p for p in here if p["metadata"]["namespace"] == "a" and get_labels(p).get("app") == "x"]
        assert view.count_by_node(selected)[row] == len(matching)


@given(draw_clusters(running=draw_containers), st.sampled_from((1, 32)))
def test_selector_matches_are_cached(cluster, sparse):
    """A match is kept as a mask, or rebuilt from a few positions."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pod_infos, "SPARSE", sparse)
        pods = cluster.view().pods
        for namespaces in (frozenset({"a"}), None):
            selected = pods.match_infos(selector_from_set({"app": "x"}), namespaces)
            again = pods.match_infos(selector_from_set({"app": "x"}), namespaces)
            named = {
                (p["metadata"]["namespace"], get_name(p))
                for p in cluster.pods + cluster.nominated
                if get_labels(p).get("app") == "x" and p["metadata"]["namespace"] in (namespaces or ("a", "b"))
            }
            expected = [(each.metadata.namespace, each.metadata.name) in named for each in pods.objects]
            assert selected[pods.info].tolist() == again[pods.info].tolist() == expected


@given(draw_clusters(running=draw_containers, changing=True))
def test_delta_changes_the_counts_of_its_nodes(cluster):
    view = cluster.view()
    selected = view.pods.match_infos(selector_from_set({"app": "x"}), None)
    changed = view.count_by_node(selected) + cluster.delta(view).count_changes(selected, len(view.nodes))
    for row, name in enumerate(view.nodes.names):
        here = [p for p in cluster.pods_if_changed(name) if p["spec"]["nodeName"] == name]
        assert changed[row] == sum(get_labels(p).get("app") == "x" for p in here)


# -- forks --------------------------------------------------------------------------------------------------------


@given(draw_clusters(running=draw_containers, changing=True), st.integers(0, 2**32 - 1))
def test_fork_equals_a_snapshot_of_the_changed_cluster(cluster, seed):
    """A fork keeps its sums up to date, so they are read before and after the moves."""
    view, random = cluster.view(), Random(seed)
    before = view.requested.copy()
    fork = view.fork()
    matching = view.pods.match_infos(selector_from_set({"app": "x"}), None)
    places = {get_name(p): p["spec"].get("nodeName") for p in cluster.pods + cluster.nominated}
    for name in random.choices([*places], k=random.randint(0, 6)) if places else ():
        fork.tally("x", lambda: matching.astype(np.int64))
        position = [each.metadata.name for each in view.pods.objects].index(name)
        if places[name]:
            fork.forget(position)
            places[name] = None
        else:
            places[name] = random.choice(view.nodes.names)
            fork.assume(position, view.nodes.index[places[name]])
    fresh = build_snapshot({"nodes": cluster.nodes, "pods": get_moved_pods(cluster, places)})
    assert Counter(fork.node.tolist()) == Counter(fresh.node.tolist())
    for resource in ("cpu", "pods"):
        column, own = fork.resources[resource], fresh.resources[resource]
        assert (fork.requested[:, column] == fresh.requested[:, own]).all()
        assert (fork.nonzero_requested[:, column] == fresh.nonzero_requested[:, own]).all()
    expected = fresh.count_by_node(fresh.pods.match_infos(selector_from_set({"app": "x"}), None))
    assert (fork.tally("x", lambda: matching.astype(np.int64)) == expected).all()
    assert (fork.count_by_node(matching) == expected).all()
    assert (view.requested == before).all()


def get_moved_pods(cluster, places):
    """Return the pods on their current nodes."""
    pods = []
    for each in cluster.pods + cluster.nominated:
        spec = {key: value for key, value in each["spec"].items() if key != "nodeName"}
        place = places[get_name(each)]
        pods.append({**each, "spec": {**spec, **({"nodeName": place} if place else {})}})
    return pods


def build_started_pod(name, start):
    metadata = {"name": name, "namespace": "d"}
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"startTime": start} if start else {}}


def test_clones_have_the_start_time_of_their_pod():
    view = build_snapshot({"pods": [build_started_pod("a", "1970-01-01T00:00:01Z"), build_started_pod("b", "")]}).fork()
    assert view.pods.start.tolist() == [10**6, NO_TIME]
    view.add_clones(0, 2)
    assert view.pods.start.tolist() == [10**6, NO_TIME, 10**6, 10**6]


def test_pods_are_cloned_many_times():
    view = build_snapshot({"pods": [build_started_pod("a", ""), build_started_pod("b", "")]}).fork()
    for _ in range(2 * sys.getrecursionlimit()):
        view.add_clones(0, 1)
    view.add_clones(1, 1)
    assert len(view.pods.objects) == 2 * sys.getrecursionlimit() + 3
    assert [view.pods.objects[i].metadata.name for i in (1, 2, -2, -1)] == ["b", "a", "a", "b"]
    assert len(view.pods.start) == len(view.pods.objects)


def test_invalid_start_time_names_the_pod():
    view = build_snapshot(
        {"pods": [build_started_pod("a", "1970-01-01T00:00:01Z"), build_started_pod("b", "yesterday")]}
    )
    with pytest.raises(InputError, match=r"Pod d/b, status\.startTime: 'yesterday' is not a time"):
        _ = view.pods.start


# -- what is found without building every pod -------------------------------------------------------------------------


def test_images_equal_those_of_a_loop_over_nodes():
    lists = {
        "n0": [{"names": ["web:1", "web@sha256:a"], "sizeBytes": 5}],
        "n1": [{"names": ["web:1"], "sizeBytes": 7}, {"names": ["db:1"], "sizeBytes": 3}],
        "n2": [{"names": ["db:1"], "sizeBytes": 4}, {"names": ["db:1"], "sizeBytes": 9}],
        "n3": [],
    }
    nodes = [{**build_node(name), "status": {"images": images}} for name, images in lists.items()]
    view = build_snapshot({"nodes": list(reversed(nodes))})
    names = ["web:1", "web@sha256:a", "db:1", "none:1"]
    for name, state in zip(names, view.nodes.find_image_states(names), strict=True):
        expected = {}
        for node_name, images in lists.items():
            for image in images:
                if name in image["names"]:
                    expected.setdefault(node_name, image["sizeBytes"])
        found = {}
        if state is not None:
            holders = [view.nodes.names[row] for row in state.rows]
            found = dict(zip(holders, state.sizes.tolist(), strict=True))
        assert list(found.items()) == list(expected.items())


def test_host_ports_include_defaults_of_host_networking():
    def listening(name, host_network=False, **port):
        ports = [{"protocol": "TCP", **port}] if port else []
        spec = {"hostNetwork": host_network, "containers": [{"name": "c", "ports": ports}], "nodeName": "n0"}
        return {**build_pod(name), "spec": spec}

    pods = [
        listening("declared", hostPort=80, containerPort=8080),
        listening("defaulted", host_network=True, containerPort=443),
        listening("inside", containerPort=443),
        listening("silent"),
    ]
    view = build_snapshot({"nodes": [build_node("n0")], "pods": pods})
    assert sorted(port.port for port in view.pods.host_ports) == [80, 443]
    takes_443 = view.pods.mask_with_host_port(lambda port: port.port == 443)[view.pods.info]
    keys = [view.pods.objects.get_key(position) for position in np.flatnonzero(takes_443)]
    assert keys == ["a/defaulted"]
