"""Type printed plans on a control plane whose controllers and scheduler run in between."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping

from control_plane import kubectl
from control_plane.running import run
from control_plane.store import Store
from control_plane.world import build_store
from small import Json, build_budget, build_node, build_pod, build_pod_spec, build_replica, build_workload

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.commands.make_room.room import RoomCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS
from kschedctl.reports.remedy import chain_commands

GATES = {"GenericWorkload": True, "GangScheduling": True}
EVICTION = re.compile(r"/namespaces/d/pods/(\S+)/eviction")


def get_app(made: Json) -> str:
    app: str = made["metadata"]["labels"]["app"]
    return app


def get_places(store: Store) -> dict[str, list[str]]:
    """Return the nodes of each workload's pods, "" for a waiting pod."""
    where: dict[str, list[str]] = {}
    for made in store.of_kind("Pod"):
        where.setdefault(get_app(made), []).append(made["spec"].get("nodeName") or "")
    return {app: sorted(nodes) for app, nodes in where.items()}


def run_plan(
    store: Store, commands: Iterable[str], wanted: str, gates: Mapping[str, bool] | None = None
) -> list[dict[str, list[str]]]:
    """Return the nodes of all pods after each command. Only the wanted pods may be without a node."""
    after = []
    for command in commands:
        kubectl.run(store, command)
        run(store, gates)
        after.append(get_places(store))
        assert all(app == wanted or all(nodes) for app, nodes in after[-1].items())
    assert not any(made["spec"].get("unschedulable") for made in store.of_kind("Node"))
    return after


def set_app(app: str, made: Json) -> Json:
    made["metadata"]["labels"] = {"app": app, "pod-template-hash": "5f"}
    made["metadata"]["ownerReferences"][0]["name"] = f"{app}-5f"
    return made


def build_owned_pod(app: str, on: str, cpu: str, **spec: object) -> Json:
    return set_app(app, build_pod(f"{app}-5f-x", on, cpu, {"kind": "ReplicaSet", "name": ""}, **spec))


def build_chain_cluster() -> list[Json]:
    """Build a cluster in which a (3) must leave n1 but fits nowhere before y (2) has left n2 for n3."""
    nodes, ssd = [build_node("n1"), build_node("n2"), build_node("n3", cpu="2")], {"disk": "ssd"}
    for made in nodes[1:]:
        made["metadata"]["labels"] |= ssd
    z = build_pod("z", "n2", "1")
    z["metadata"]["labels"] = {"app": "z"}
    return [
        *nodes,
        build_owned_pod("a", "n1", "3"),
        build_owned_pod("y", "n2", "2", nodeSelector=ssd),
        z,
        build_owned_pod("new", "", "4"),
    ]


def test_comments_above_the_commands_say_what_each_move_does() -> None:
    """A comment between commands that are joined by && would end the chain in an interactive zsh."""
    objects = build_chain_cluster()
    objects[3]["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    report = kschedctl.make_room(Cluster.from_objects(objects), "d/new-5f-x")
    comments = [
        "# 1. d/y-5f-x is evicted from n2 and recreated on n3 (Deployment d/y has no running pod until then)",
        "# 2. d/a-5f-x is evicted from n1 and recreated on n2, which loses the data in its emptyDir volumes "
        "(Deployment d/a has no running pod until then)",
    ]
    for width in (45, 160):
        text = RENDERERS["table"](report, Style(width=width))
        printed = [line.strip() for line in text.partition("\nCommands\n")[2].splitlines()]
        assert all(len(line) <= width for line in printed if line.startswith("#"))
        unwrapped = "\n".join(printed).replace("\n#    ", " ").splitlines()
        chained = chain_commands(report.commands)
        assert unwrapped[: len(chained) + 2] == [*comments, *chained]


def test_plan_that_remedies_show() -> None:
    report = kschedctl.remedies(Cluster.from_objects(build_chain_cluster()), "d/new-5f-x")
    room = report.make_room
    assert room is not None
    assert room.build_headline_parts()[0] == "Moving 2 pods makes room for"
    store = build_store(build_chain_cluster(), "d/new-5f-x")
    run_plan(store, room.commands, "new")
    assert get_places(store) == {"a": ["n2"], "y": ["n3"], "z": ["n2"], "new": ["n1"]}


def test_all_replicas_of_a_deployment() -> None:
    """One of three pods of 3 CPUs fits as it is. a and b have to move to n4, one by one because of the budget."""
    x = build_workload("Deployment", "x", {"replicas": 3}, build_pod_spec("3"))
    running = [build_replica("web-5f-a", "n1", "2"), build_replica("web-5f-b", "n2", "2")]
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        build_node("n4", taints=[_build_taint()]),
        *running,
        build_budget(1),
    ]
    for made in running:
        made["spec"]["tolerations"] = [{"key": "own", "operator": "Exists"}]
    cluster = Cluster.from_objects(objects)
    report = kschedctl.make_room(cluster, [{"apiVersion": "apps/v1", **x}])
    assert (report.fits, len(report.moves), len(report.placed)) == (True, 2, 3)
    store = build_store(objects, "d/web-5f-a")
    document = json.dumps({"apiVersion": "apps/v1", **x})
    kubectl.run(store, f"printf %s {shlex.quote(document)} | kubectl apply -f -")
    run(store)
    assert Counter(get_places(store)["x"]) == Counter(["", "", "n3"])
    after = run_plan(store, report.commands, "x")
    assert after[-1]["x"] == ["n1", "n2", "n3"]
    assert after[-1]["web"] == ["n4", "n4"]
    assert [EVICTION.search(command) is not None for command in report.commands].count(True) == 2


def _build_taint() -> Json:
    return {"key": "own", "effect": "NoSchedule"}


def build_gang(*, count: int) -> list[Json]:
    """Build a PodGroup with this many pods that request 4 CPUs each."""
    metadata = {"name": "train", "namespace": "d"}
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata}
    group["spec"] = {"schedulingPolicy": {"gang": {"minCount": count}}}
    members = [build_pod(f"train-{i}", "", "4", schedulingGroup={"podGroupName": "train"}) for i in range(count)]
    for made in members:
        made["metadata"]["labels"] = {"app": "train"}
    return [group, *members]


def test_gang_of_kubernetes() -> None:
    """n3 takes one member as it is. The other one gets n1 once a has moved to n2."""
    objects = [
        build_node("n1"),
        build_node("n2"),
        build_node("n3"),
        build_owned_pod("a", "n1", "2"),
        build_owned_pod("b", "n2", "2"),
        *build_gang(count=2),
    ]
    cluster = Cluster.from_objects(objects, feature_gates=GATES)
    report = kschedctl.make_room(cluster, "d/train-0")
    assert (report.fits, len(report.moves), set(report.pods)) == (True, 1, {"d/train-0", "d/train-1"})
    store = build_store(objects, "d/train-0")
    run(store, GATES)
    assert get_places(store)["train"] == ["", ""]
    after = run_plan(store, report.commands, "train", GATES)
    assert all(nodes["train"] == ["", ""] for nodes in after[:-2])
    assert "" not in after[-1]["train"]
    assert not kschedctl.make_room(cluster, "d/train-0", RoomCriteria(keep="app in (a, b)")).fits
