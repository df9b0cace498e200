"""Check `whatif --compare-version`: placements and messages of pending pods, and new placements of running ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small import Json, build_node, build_pod, build_replica

from kschedctl.cluster import Cluster
from kschedctl.commands.whatif import build_version_settings, rescheduling, whatif
from kschedctl.commands.whatif.report import PodsElsewhere, Replacement
from kschedctl.errors import ConfigurationError, UsageError
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.node_ports import NodePorts

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
BALANCE = "NodeResourcesBalancedAllocation: what the score measures (#135573)"
SCORES = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesBalancedAllocation"}]}
BALANCE_ALONE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": SCORES}}],
}


def set_memory(made: Json) -> Json:
    made["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"
    return made


def build_uneven_cluster(*pods: Json) -> Cluster:
    """Build an empty n1 and an n2 with 3 of 4 CPUs and none of 8 GiB requested, for pods of 1 CPU and 4 GiB.

    In percent of CPU and memory, with the balance (1 - half the difference): n1 goes from 0 and 0 (100) to 25 and 50
    (87), n2 from 75 and 0 (62) to 100 and 50 (75). Up to 1.35 the balance afterwards counts: n1. From 1.36 on the score
    is 50 + (50 + after - before) / 2: 68 and 81, n2.
    """
    return Cluster.from_objects(
        [build_node("n1"), build_node("n2"), build_pod("large", "n2", "3"), *pods], config=BALANCE_ALONE
    )


def test_pending_pod_goes_to_the_node_whose_balance_improves() -> None:
    report = whatif(build_uneven_cluster(set_memory(build_pod("p"))), None, build_version_settings(("1.35", "1.36")))
    assert [(c.pod, c.change, c.before, c.after) for c in report.changes] == [("d/p", "Moved", "n1", "n2")]
    assert (report.compared, report.messages, report.replacement) == (("1.35", "1.36"), (), Replacement(0, 0))
    assert (
        whatif(build_uneven_cluster(set_memory(build_pod("p"))), None, build_version_settings(("1.34", "1.35"))).changes
        == ()
    )


def test_cause_of_a_newly_pending_pod() -> None:
    """p requests 9 CPUs in spec.resources, which 1.31 ignores, and no node has them.

    Without this request, p would get n2 in 1.36 instead of n1, which does not explain why it is pending.
    """
    pending = set_memory(build_pod("p"))
    pending["spec"]["resources"] = {"requests": {"cpu": "9"}}
    (change,) = whatif(build_uneven_cluster(pending), None, build_version_settings(("1.31", "1.36")), in_full=1).changes
    assert (change.change, change.before, change.because) == ("NewlyPending", "n1", ("PodLevelResources",))


def test_running_pod_would_move_if_it_were_recreated() -> None:
    """A pod that no controller recreates is left out."""
    report = whatif(
        build_uneven_cluster(set_memory(build_replica("r", "n1"))), None, build_version_settings(("1.35", "1.36"))
    )
    moved = PodsElsewhere("Deployment d/web", ("d/r",), ("n1",), ("n2",), (BALANCE,))
    assert (report.changes, report.replacement) == ((), Replacement(1, 1, (moved,)))
    assert whatif(
        build_uneven_cluster(set_memory(build_replica("r", "n1"))), None, build_version_settings(("1.34", "1.35"))
    ).replacement == Replacement(1, 1)


def test_running_pod_is_left_out_if_a_plugin_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PluginError("no such answer")

    cluster = build_uneven_cluster(set_memory(build_replica("r", "n1")))
    monkeypatch.setattr(NodePorts, "pre_filter", fails)
    report = whatif(cluster, None, build_version_settings(("1.35", "1.36")))
    assert report.replacement == Replacement(1, 1, (), 1)


def test_changed_message() -> None:
    """Up to 1.34.1, the message names the taint (#135023)."""
    cluster = Cluster.from_objects([build_node("n1", taints=[TAINT]), build_pod("p"), build_pod("q")])
    report = whatif(cluster, None, build_version_settings(("1.34.1", "1.34.2")))
    (change,) = report.messages
    assert change.before.startswith("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}.")
    assert change.after.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
    assert change.pods == ("d/p", "d/q")
    assert (report.changes, report.pending) == ((), (2, 2))
    assert whatif(cluster, None, build_version_settings(("1.34.2", "1.36"))).messages == ()


def test_equal_versions_and_changes_that_are_not_replayed() -> None:
    cluster = Cluster.from_objects([build_node("n1")])
    with pytest.raises(UsageError, match="versions are the same"):
        whatif(cluster, None, build_version_settings(("1.34", "v1.34")))
    with pytest.raises(ConfigurationError, match=r"'1\.29' is not supported"):
        whatif(cluster, None, build_version_settings(("1.29", "1.34")))


def build_pairs_of_pods() -> Cluster:
    """Build two running pods of each of three workloads."""
    return build_uneven_cluster(
        *(build_pod(f"{name}-{i}", "n1", "10m", build_owner(name)) for name in "abc" for i in range(2))
    )


def build_owner(name: str) -> Json:
    return {"kind": "StatefulSet", "name": name}


def test_large_clusters_are_compared_by_some_pods_of_each_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    nodes = rescheduling._SchedulerProbe.find_best_nodes

    def noted(self: Any, position: Any, unknown: Any) -> Any:
        asked.append(self.view.pods.objects[position].key)
        return nodes(self, position, unknown)

    monkeypatch.setattr(rescheduling, "MAX_PODS", 4)
    monkeypatch.setattr(rescheduling._SchedulerProbe, "find_best_nodes", noted)
    found = whatif(build_pairs_of_pods(), None, build_version_settings(("1.35", "1.36"))).replacement
    assert found is not None
    assert (found.running, found.asked) == (6, 4)
    assert sorted(set(asked)) == ["d/a-0", "d/a-1", "d/b-0", "d/c-0"]


def test_interruption_shows_the_results_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third pod takes too long."""
    asked: list[object] = []
    nodes = rescheduling._SchedulerProbe.find_best_nodes

    def patience(self: Any, position: Any, unknown: Any) -> Any:
        asked.append(position)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return nodes(self, position, unknown)

    monkeypatch.setattr(rescheduling, "BATCH_SIZE", 1)
    monkeypatch.setattr(rescheduling._SchedulerProbe, "find_best_nodes", patience)
    report = whatif(build_pairs_of_pods(), None, build_version_settings(("1.35", "1.36")))
    assert report.interrupted
    assert report.replacement is not None
    assert (report.replacement.running, report.replacement.asked) == (6, 2)


def test_progress_is_shown_for_running_pods() -> None:
    shown: dict[str, list[int]] = {}

    class Seen:
        def begin(self, what: str, total: int) -> Callable[[int], None]:
            shown[what] = [total]
            return shown[what].append

    whatif(build_pairs_of_pods(), None, build_version_settings(("1.35", "1.36")), progress=Seen())
    assert shown["Running pods"] == [1, 1]


def test_unread_kinds_that_matter_for_running_pods_are_named() -> None:
    """It is unknown if the claim's volume ties the pod to a node."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    objects = [build_node("n1"), build_node("n2"), build_replica("r", "n1", volumes=[volume])]
    lists = [{"kind": f"{kind}List", "items": []} for kind in ("Node", "Pod")]
    cluster = Cluster.from_objects([*objects, *lists], assume_complete=False)
    report = whatif(cluster, None, build_version_settings(("1.35", "1.36")))
    assert {each.kind for each in report.unknown if each.affects == "replacement"} >= {"PersistentVolumeClaim"}
    assert not report.undecided
