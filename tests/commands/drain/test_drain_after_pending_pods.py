"""Check drains of clusters in which pending pods take room first: the drain is replayed with them, as `whatif` does."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from command_line import Run, Write
from small import Json, build_node, build_pod, build_replica

from kschedctl.api.copying import replace
from kschedctl.cluster import Cluster
from kschedctl.commands.drain import drain
from kschedctl.commands.drain.report import Drain
from kschedctl.commands.whatif import whatif
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS

drain_package = importlib.import_module("kschedctl.commands.drain")

STEP = {"steps": [{"drain": {"nodes": ["n1"]}}]}

# n2 has room for d/web of n1 as long as d/urgent does not preempt d/batch there. Then only 1 CPU is left.
TAKING_ROOM: list[Json] = [
    build_node("n1", cpu="2"),
    build_node("n2", cpu="4"),
    build_replica("web", "n1", "2", priority=50),
    build_replica("batch", "n2", "2", priority=0),
    build_pod("urgent", cpu="3", priority=50),
]


def drain_n1(objects: list[Json]) -> Drain:
    return drain(Cluster.from_objects(objects), ["n1"])


def test_drain_is_not_safe_if_a_preempting_pod_takes_the_room_of_an_evicted_pod() -> None:
    report = drain_n1(TAKING_ROOM)
    assert [(pod.pod, pod.target) for pod in report.moved] == [("d/web", "n2")]
    assert report.pending_left_out.preempting == ("d/urgent",)
    assert report.harm_after_pending_pods.unplaced == ("d/web",)
    assert (report.drained, report.safe) == (True, False)
    newly_pending = [
        change.pod for change in whatif(Cluster.from_objects(TAKING_ROOM), STEP).changes if not change.after
    ]
    assert newly_pending == ["d/web"]


def test_every_form_names_the_pod_that_loses_its_room(run: Run, write: Write) -> None:
    clause = "d/web fits nowhere else once pending pods have taken their room"
    report = drain_n1(TAKING_ROOM)
    assert report.build_headline_parts()[1] == f"can be drained, but {clause};"
    assert f"next: drain n1, but {clause}" in RENDERERS["brief"](report, Style(width=200))
    assert [problem.object for problem in report.find_ci_gate_problems()] == ["Pod d/web"]
    code, out, _ = run("drain", "n1", "-f", write(*TAKING_ROOM), "--assume-complete", "-o", "json")
    assert (code, json.loads(out)["harmAfterPendingPods"]["unplaced"]) == (1, ["d/web"])


def test_drain_is_not_safe_if_pods_preempt_only_because_a_pending_pod_takes_the_room() -> None:
    """d/waiting fits on n2 and leaves 1 CPU there, so that d/web has to preempt d/batch, which then fits on n3."""
    report = drain_n1(
        [
            build_node("n1", cpu="2"),
            build_node("n2", cpu="5"),
            build_node("n3", cpu="1"),
            build_replica("web", "n1", "2", priority=50),
            build_replica("batch", "n2", "1", priority=0),
            build_pod("waiting", cpu="3", priority=50),
        ]
    )
    assert report.pending_left_out.fitting == ("d/waiting",)
    assert report.harm_after_pending_pods.evicted == ("d/batch",)
    assert not report.safe


def test_drain_is_not_safe_if_a_pod_is_lost_only_because_a_pending_pod_takes_the_room() -> None:
    """As above, but d/bare, which d/web preempts, has no controller. n3 has room for it all the same."""
    objects = [
        build_node("n1", cpu="2"),
        build_node("n2", cpu="5"),
        build_node("n3", cpu="1"),
        build_replica("web", "n1", "2", priority=50),
        build_pod("bare", "n2", "1", priority=0),
        build_pod("waiting", cpu="3", priority=50),
    ]
    report = drain_n1(objects)
    assert (report.harm_after_pending_pods.lost, report.harm_after_pending_pods.evicted) == (("d/bare",), ())
    assert not report.safe
    assert "d/bare is lost for good once pending pods have taken their room" in RENDERERS["brief"](report, Style(300))
    assert whatif(Cluster.from_objects(objects), STEP).lost_pods == ("d/bare",)


def test_drain_is_replayed_with_pending_pods_if_extenders_are_configured() -> None:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://extender.invalid", "filterVerb": "filter", "ignorable": True}],
    }
    cluster = Cluster.from_objects(TAKING_ROOM, config=configuration)
    report = drain(cluster, ["n1"])
    assert report.pending_left_out.fitting is None
    assert report.harm_after_pending_pods.unplaced == ("d/web",)
    assert not report.safe


def test_drain_stays_safe_if_pending_pods_leave_enough_room() -> None:
    """d/batch and d/web each get one of the two other nodes."""
    report = drain_n1([*TAKING_ROOM, build_node("n3", cpu="2"), build_node("n4", cpu="2")])
    assert report.pending_left_out.preempting == ("d/urgent",)
    assert not report.harm_after_pending_pods.describe()
    assert report.safe


@pytest.mark.parametrize("interrupted", ["settle", "drain_nodes"])
def test_drain_is_not_safe_if_the_user_interrupts_the_replay_with_pending_pods(
    monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """The first replay, which ends, would call the drain safe."""
    replay = getattr(drain_package, interrupted)

    def replay_until_interrupt(cluster: Cluster, *args: Any, **options: Any) -> Any:
        is_first_replay = interrupted == "drain_nodes" and cluster is first_cluster
        result = replay(cluster, *args, **options)
        return result if is_first_replay else replace(result, interrupted=True)

    first_cluster = Cluster.from_objects(TAKING_ROOM)
    monkeypatch.setattr(drain_package, interrupted, replay_until_interrupt)
    report = drain(first_cluster, ["n1"])
    assert (report.interrupted, report.drained, report.safe) == (True, False, False)
    assert report.build_headline_parts()[1].startswith("is not drained yet")
