"""`whatif --compare-version`: where the pods go, what is said of them, and where those that run would go."""

from __future__ import annotations

import pytest
from small import Json, node, pod, replica

from kschedctl.cluster import Cluster
from kschedctl.errors import ConfigurationError, UsageError
from kschedctl.reports.whatif import PodsElsewhere, Replacement
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.studies.whatif import compare_versions

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
SCORES = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesBalancedAllocation"}]}
BALANCE_ALONE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"score": SCORES}}],
}


def with_memory(made: Json) -> Json:
    made["spec"]["containers"][0]["resources"]["requests"]["memory"] = "4Gi"
    return made


def uneven(*pods: Json) -> Cluster:
    """n1 is empty, of n2's 4 cpu 3 are taken and nothing of its 8 GiB; pods of 1 cpu and 4 GiB come.

    What is in use of cpu and memory, and the balance (1 - half the difference) in percent: n1 from 0 and 0
    (100) to 0.25 and 0.5 (87), n2 from 0.75 and 0 (62) to 1 and 0.5 (75). Up to 1.35 the latter count: n1. From 1.36 on
    50 + (50 + latter - former) / 2: 68 and 81, n2.
    """
    return Cluster.from_objects([node("n1"), node("n2"), pod("large", "n2", "3"), *pods], config=BALANCE_ALONE)


def test_a_pending_pod_goes_where_balance_is_gained() -> None:
    report = compare_versions(uneven(with_memory(pod("p"))), None, ("1.35", "1.36"))
    assert [(c.pod, c.change, c.before, c.after) for c in report.changes] == [("d/p", "Moved", "n1", "n2")]
    assert (report.compared, report.messages, report.replacement) == (("1.35", "1.36"), (), Replacement(0))
    assert compare_versions(uneven(with_memory(pod("p"))), None, ("1.34", "1.35")).changes == ()


def test_a_running_pod_would_go_there_too_if_it_were_made_anew() -> None:
    """A pod that nobody makes anew is not asked about."""
    report = compare_versions(uneven(with_memory(replica("r", "n1"))), None, ("1.35", "1.36"))
    moved = PodsElsewhere("Deployment d/web", ("d/r",), ("n1",), ("n2",))
    assert (report.changes, report.replacement) == ((), Replacement(1, (moved,)))
    assert compare_versions(uneven(with_memory(replica("r", "n1"))), None, ("1.34", "1.35")).replacement == Replacement(
        1
    )


def test_nothing_is_said_of_a_running_pod_of_which_a_plugin_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise PluginError("no such answer")

    cluster = uneven(with_memory(replica("r", "n1")))
    monkeypatch.setattr(NodePorts, "pre_filter", fails)
    report = compare_versions(cluster, None, ("1.35", "1.36"))
    assert report.replacement == Replacement(1, (), 1)


def test_a_message_that_alerts_match_on() -> None:
    """#135023: up to 1.34.1 the taint is named."""
    cluster = Cluster.from_objects([node("n1", taints=[TAINT]), pod("p"), pod("q")])
    report = compare_versions(cluster, None, ("1.34.1", "1.34.2"))
    (change,) = report.messages
    assert change.before.startswith("0/1 nodes are available: 1 node(s) had untolerated taint {gpu: yes}.")
    assert change.after.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s).")
    assert change.pods == ("d/p", "d/q")
    assert (report.changes, report.pending) == ((), (2, 2))
    assert compare_versions(cluster, None, ("1.34.2", "1.36")).messages == ()


def test_twice_the_same_and_what_is_not_replayed() -> None:
    cluster = Cluster.from_objects([node("n1")])
    with pytest.raises(UsageError, match="two different versions"):
        compare_versions(cluster, None, ("1.34", "v1.34"))
    with pytest.raises(ConfigurationError, match=r"'1\.29' is not supported"):
        compare_versions(cluster, None, ("1.29", "1.34"))
