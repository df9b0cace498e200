"""Check that searches from every start index equal one replayed cycle for each."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.sampling import Sampling, SearchTerms
from kschedctl.scheduler.engine.start_indexes import EveryStart
from kschedctl.scheduler.framework import Peers
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pod_info import PodInfo

Json = dict[str, Any]
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
CPU = {"requests": {"cpu": "500m", "memory": "256Mi"}}
APP = {"matchLabels": {"app": "web"}}


def build_term(key: str, weight: int, app: str = "web") -> Json:
    wanted = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"weight": weight, "podAffinityTerm": wanted}


def build_spread(key: str, skew: int = 1) -> Json:
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": APP}


SHAPES: dict[str, Json] = {
    "plain": {},
    "best-effort": {"containers": [{"name": "c", "image": "web:1"}]},
    "nodes it prefers": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": w,
                        "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [v]}]},
                    }
                    for v, w in (("ssd", 30), ("nvme", 70))
                ]
            }
        }
    },
    "one zone only": {"nodeSelector": {ZONE: "a"}},
    "pods it likes and avoids": {
        "affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [build_term(ZONE, 40, "db")]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [build_term(HOSTNAME, 60)]},
        }
    },
    "spread over zones": {"topologySpreadConstraints": [build_spread(ZONE)]},
    "spread over hosts and racks": {"topologySpreadConstraints": [build_spread(HOSTNAME, 2), build_spread("rack")]},
    "nowhere": {"nodeSelector": {"no": "node"}},
    "three nodes": {"nodeSelector": {"few": "yes"}},
}


def build_node(random: Random, number: int) -> Json:
    labels = {HOSTNAME: f"n{number}", "disk": random.choice(["ssd", "nvme", "hdd"])}
    labels |= {ZONE: random.choice("aaabc")} if random.random() < 0.95 else {}
    labels |= {"rack": str(number // 12)} if random.random() < 0.9 else {}
    labels |= {"few": "yes"} if number in (3, 50, 51) else {}
    taints = [{"key": f"k{i}", "effect": "PreferNoSchedule"} for i in range(random.choice([0, 0, 0, 1, 2]))]
    taints += [{"key": "hard", "effect": "NoSchedule"}] * (random.random() < 0.1)
    offered = {"cpu": random.choice(["4", "8", "16"]), "memory": random.choice(["8Gi", "32Gi"]), "pods": "20"}
    images = [{"names": ["web:1"], "sizeBytes": 400_000_000}] * (random.random() < 0.3)
    return {
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": offered, "images": images},
    }


def build_pod(name: str, spec: Json, app: str = "web", node_name: str = "") -> Json:
    container = {"name": "c", "image": "web:1", "resources": CPU}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {"containers": [container], **({"nodeName": node_name} if node_name else {}), **spec},
    }


def build_cluster(seed: int, configuration: Json | None = None) -> Cluster:
    random = Random(seed)
    nodes = [build_node(random, number) for number in range(random.randint(200, 300))]
    running = [
        build_pod(f"p{i}", {}, random.choice(["web", "web", "db"]), random.choice(nodes)["metadata"]["name"])
        for i in range(3 * len(nodes))
    ]
    asked = [build_pod(name.replace(" ", "-"), spec) for name, spec in SHAPES.items()]
    service = {"kind": "Service", "metadata": {"name": "s", "namespace": "shop"}, "spec": {"selector": {"app": "web"}}}
    return Cluster.from_objects([*nodes, *running, *asked, service], config=configuration)


def run_sampled_cycle(cluster: Cluster, name: str, sampling: Sampling | None = None) -> Cycle:
    scheduler = Scheduler(cluster)
    found = scheduler.cluster.pod("shop", name.replace(" ", "-"))
    assert found is not None
    info = PodInfo(scheduler.view.build_stored_pod(found), scheduler.view.settings.requests)
    framework = scheduler.find_framework(info.spec.scheduler_name)
    assert framework is not None
    return run_cycle(framework, info, scheduler.view, sampling)


Told = tuple[int, int, int, int, int]


def replay_start(whole: Cycle, percentage: int, start: int) -> Told:
    """Return the results of a cycle that samples from this index: nodes found and looked at, ties, and best ones."""
    cycle = run_cycle(whole.framework, whole.info, whole.view, Sampling(percentage, start))
    total = dict(zip(whole.scores.rows.tolist(), whole.scores.total.tolist(), strict=True))
    best = cycle.scores.best.tolist()
    lost = [max(total.values()) - total[row] for row in best]
    return len(cycle.feasible), int(cycle.considered.sum()), len(best), sum(lost), lost.count(0)


def list_results(whole: Cycle, percentage: int) -> list[Told]:
    """Return the results of a cycle for each start index."""
    starts = EveryStart(whole)
    terms = SearchTerms.from_profile(whole.framework.profile, whole.framework.release)
    found = starts.search_samples(Sampling(percentage).count_nodes_needed(starts.offered, terms))
    columns = (found.examined, found.ties, found.lost, found.hits)
    return [(found.scored, *row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def replay_all_starts(whole: Cycle, percentage: int) -> list[Told]:
    return [replay_start(whole, percentage, start) for start in range(len(whole.view.nodes))]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_start_equals_its_replay(seed: int, name: str) -> None:
    whole = run_sampled_cycle(build_cluster(seed), name)
    for percentage in (5, 60, 80):
        assert list_results(whole, percentage) == replay_all_starts(whole, percentage)


def test_generated_clusters_have_varied_results() -> None:
    cluster = build_cluster(1)
    fitting = [name for name in SHAPES if len(run_sampled_cycle(cluster, name).feasible) > 100]
    assert len(fitting) == len(SHAPES) - 2, "all but those that fit nowhere and on three nodes"
    for name in fitting:
        answers = list_results(run_sampled_cycle(cluster, name), 5)
        assert len(set(answers)) > 10, name
        assert any(lost for *_, lost, _ in answers), name


def test_plugin_without_row_scores_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_sampled_cycle(build_cluster(3), "pods it likes and avoids")
    expected = replay_all_starts(whole, 5)
    assert list_results(whole, 5) == expected
    monkeypatch.setattr(InterPodAffinity, "peers", Peers.ALL)
    assert list_results(whole, 5) == expected


PROFILES: dict[str, Json] = {
    "nothing scores": {"plugins": {"score": {"disabled": [{"name": "*"}]}}},
    "weights of its own": {
        "plugins": {
            "score": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": "TaintToleration", "weight": 1}, {"name": "PodTopologySpread", "weight": 7}],
            }
        }
    },
    "full nodes first, hosts by default constraints": {
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}},
            },
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
                        {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
                    ],
                },
            },
        ]
    },
}


@pytest.mark.parametrize("name", PROFILES)
def test_profiles(name: str) -> None:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [PROFILES[name]],
    }
    whole = run_sampled_cycle(build_cluster(4, configuration), "plain")
    assert list_results(whole, 5) == replay_all_starts(whole, 5)


def test_examined_nodes_by_hand() -> None:
    """The even-numbered of 300 nodes fit.

    From node 0 the 101st feasible node is node 200, after 200 others. From node 1 it is node 202, after 201 others.
    """
    nodes = [build_node(Random(0), number) for number in range(300)]
    for number, each in enumerate(nodes):
        each["metadata"] = {"name": f"n{number:03}"}
        each["spec"] = {"unschedulable": bool(number % 2)}
    whole = run_sampled_cycle(Cluster.from_objects([*nodes, build_pod("web", {})]), "web")
    assert whole.view.nodes.names[:3] == ("n000", "n001", "n002")
    found = EveryStart(whole).search_samples(100)
    assert found.scored == 100
    assert found.examined.tolist() == [200, 201] * 150
