"""Check properties of every scheduling cycle on random clusters with the default profile."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import build_snapshot, find_pod_info, show_status
from small_clusters import build_selector, draw_clusters, draw_many, draw_some, draw_topology_key

from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.scheduler import Scheduler

FRAMEWORK = Scheduler(Cluster()).find_framework("default-scheduler")


def draw_container(random):
    requests = draw_some(random, cpu=random.choice(["200m", "1"]), memory=random.choice(["100Mi", "1Gi"]))
    port = {"containerPort": 80, "hostPort": 80}
    return {"image": "web", "resources": {"requests": requests}, **({"ports": [port]} if random.random() < 0.1 else {})}


def draw_affinity(random):
    term = {"topologyKey": draw_topology_key(random), "labelSelector": build_selector(random)}
    hard, soft = (
        draw_some(random, t=term),
        draw_some(random, t={"weight": random.randint(1, 100), "podAffinityTerm": term}),
    )
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": list(hard.values()) if random.random() < 0.3 else [],
        "preferredDuringSchedulingIgnoredDuringExecution": list(soft.values()),
    }


def draw_constraint(random):
    action = random.choice(["DoNotSchedule", "ScheduleAnyway"])
    return {
        "maxSkew": 1,
        "topologyKey": draw_topology_key(random),
        "whenUnsatisfiable": action,
        "labelSelector": build_selector(random),
    }


def draw_demanding_pod(random):
    return {
        "containers": draw_many(random, 2, draw_container, least=1),
        "tolerations": draw_many(random, 1, lambda r: {"operator": "Exists"}),
        "affinity": draw_some(random, podAffinity=draw_affinity(random), podAntiAffinity=draw_affinity(random)),
        "topologySpreadConstraints": draw_many(random, 2, draw_constraint),
    }


def draw_varied_node(random):
    taint = {"key": "k", "effect": random.choice(["NoSchedule", "PreferNoSchedule"])}
    spec = {"unschedulable": random.random() < 0.1, "taints": [taint] if random.random() < 0.3 else []}
    images = [{"names": ["web:latest"], "sizeBytes": 500 << 20}] if random.random() < 0.5 else []
    return {"spec": spec, "status": {"allocatable": {"cpu": "2", "memory": "2Gi", "pods": "4"}, "images": images}}


DEMANDING = draw_clusters(pending=draw_demanding_pod, running=draw_demanding_pod, node=draw_varied_node)


def run_pending_cycle(cluster, view):
    return run_cycle(FRAMEWORK, find_pod_info({"pod": cluster.pending}, view), view)


def get_results_by_name(found):
    """Return everything that a cycle reports about nodes, by their names."""
    names = found.view.nodes.names
    scores = found.scores
    return {
        "filter": {
            plugin: {names[row]: show_status(verdict.get_status(row)) for row in range(len(names))}
            for plugin, verdict in found.filter.verdicts.items()
        },
        "firstFail": {
            names[row]: found.filter.find_first_rejection(row)[0] for row in np.flatnonzero(~found.filter.passing)
        },
        "feasible": {names[row] for row in found.feasible},
        "weighted": {
            plugin: {names[row]: int(score) for row, score in zip(scores.rows, values, strict=True)}
            for plugin, values in scores.weighted.items()
        },
        "best": {names[row] for row in scores.best},
    }


@given(DEMANDING, st.integers(0, 2**32 - 1))
def test_permuting_nodes_permutes_results(cluster, seed):
    expected = get_results_by_name(run_pending_cycle(cluster, cluster.view()))
    Random(seed).shuffle(cluster.nodes)
    assert get_results_by_name(run_pending_cycle(cluster, cluster.view())) == expected


@given(DEMANDING)
def test_first_rejections_partition_the_nodes(cluster):
    """Each node is feasible, or its first rejection is by exactly one plugin, the first in order that rejects it."""
    found = run_pending_cycle(cluster, cluster.view())
    nodes = len(found.view.nodes)
    masks = [found.filter.first == position for position in range(len(found.filter.order))]
    feasible = np.isin(np.arange(nodes), found.feasible)
    assert (np.sum([feasible, *masks], axis=0) == 1).all()
    for row in range(nodes):
        refusing = [plugin for plugin in found.filter.order if found.filter.verdicts[plugin].rejected[row]]
        assert (refusing[0] if refusing else None) == (
            None if feasible[row] else found.filter.find_first_rejection(row)[0]
        )


@given(DEMANDING)
def test_scores_stay_in_bounds(cluster):
    found = run_pending_cycle(cluster, cluster.view())
    assert found.error is None
    for values in found.scores.normalized.values():
        assert ((values >= 0) & (values <= 100)).all()


@given(DEMANDING, st.integers(0, 2**32 - 1))
def test_cycle_on_a_fork_equals_one_on_the_changed_cluster(cluster, seed):
    """Plugins cache results for a fork, which must not become stale as pods come and go."""
    random, fork = Random(seed), cluster.view().fork()
    for _ in range(4):
        run_pending_cycle(cluster, fork)
        bound = np.flatnonzero(fork.node >= 0)
        unbound = np.flatnonzero(fork.node < 0)
        if len(bound) and random.random() < 0.5:
            fork.forget(int(random.choice(bound)))
        elif len(unbound):
            fork.assume(int(random.choice(unbound)), random.randrange(len(fork.nodes)))
    pods = []
    rows = {pod.metadata.name: row for pod, row in zip(fork.pods.objects, fork.node.tolist(), strict=True)}
    for document in cluster.pods:
        row = rows[document["metadata"]["name"]]
        place = {"nodeName": fork.nodes.names[row]} if row >= 0 else {}
        spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
        pods.append({**document, "spec": {**spec, **place}})
    fresh = build_snapshot({"nodes": cluster.nodes, "pods": pods, "namespaces": cluster.namespaces})
    assert get_results_by_name(run_pending_cycle(cluster, fork)) == get_results_by_name(
        run_pending_cycle(cluster, fresh)
    )
