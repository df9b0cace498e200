"""Compare pods of a real control plane with its recorded messages and scores.

The cluster: twelve nodes in three zones, two of them tainted, one cordoned. ``recordings/pending.json.xz`` holds its
objects and each Pending pod's FailedScheduling messages, ``cluster-info-dump.json.xz`` kubectl's dump of it by file,
``placed.jsonl.xz`` the objects just before a pod came, that pod, and what the scheduler logged of it. Nothing is left
out of them but events and fields that scheduling does not read.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

import kschedctl
from kschedctl.api.times import parse_nanoseconds
from kschedctl.commands.make_room.room import RoomCriteria
from kschedctl.commands.simulate.rollout_replay import RealPlacement, replay_rollout
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
FOLDER = Path(__file__).parent / "recordings"


def read_recording(name: str) -> list[Any]:
    with lzma.open(FOLDER / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


PENDING, PLACED, DUMP = (
    read_recording("pending.json.xz")[0],
    read_recording("placed.jsonl.xz"),
    read_recording("cluster-info-dump.json.xz")[0],
)
TRIED = {pod: messages for pod, messages in PENDING["messages"].items() if messages}
"""An event can be older than the recording, so any of a pod's messages counts."""
NEVER_TRIED = {
    "lab/p21-gated": "Gated",
    "lab/p22-other-scheduler": "NotResponsible",
    "lab/p28-dra-claim-missing": "Gated",
    "lab/p33-template-claim-noclass": "Gated",
}
"""The pods without a message, and our verdict on them."""
WITH_CLAIMS = {
    f"{document['metadata']['namespace']}/{document['metadata']['name']}"
    for document in PENDING["objects"]
    if document["kind"] == "Pod"
    and (
        document["spec"].get("resourceClaims")
        or any("persistentVolumeClaim" in volume for volume in document["spec"].get("volumes", ()))
    )
}
"""Pods that need objects which a cluster-info dump does not have."""


def write_one_file(folder: Path) -> list[Path]:
    """Return the output of ``kubectl get … -A -o json`` of all kinds at once."""
    path = folder / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": PENDING["objects"]}))
    return [path]


def write_file_per_kind(folder: Path) -> list[Path]:
    for kind in {document["kind"] for document in PENDING["objects"]}:
        items = [document for document in PENDING["objects"] if document["kind"] == kind]
        (folder / f"{kind.lower()}s.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return [folder]


def write_cluster_info_dump(folder: Path) -> list[Path]:
    """Return the output of ``kubectl cluster-info dump --all-namespaces --output-directory``."""
    for name, document in DUMP.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document))
    return [folder]


def explain_pod(cluster: kschedctl.Cluster, pod: str | Json) -> Json:
    """Explain a pod of the recorded cluster and return the document."""
    return kschedctl.explain(cluster, pod).to_dict()


@pytest.fixture(scope="module")
def recorded_cluster() -> kschedctl.Cluster:
    return kschedctl.Cluster.from_objects(PENDING["objects"])


@pytest.mark.parametrize("pod", TRIED)
def test_message(pod: str, recorded_cluster: kschedctl.Cluster) -> None:
    assert explain_pod(recorded_cluster, pod)["message"] in TRIED[pod]


def test_verdict_without_message(recorded_cluster: kschedctl.Cluster) -> None:
    assert PENDING["messages"].keys() == TRIED.keys() | NEVER_TRIED.keys()
    assert {pod: explain_pod(recorded_cluster, pod)["verdict"] for pod in NEVER_TRIED} == NEVER_TRIED


@pytest.mark.parametrize(
    ("write", "left_out"),
    [(write_one_file, set()), (write_file_per_kind, set()), (write_cluster_info_dump, WITH_CLAIMS)],
    ids=["one file", "a file for each kind", "cluster-info dump"],
)
def test_messages_from_files(write: Any, left_out: set[str], tmp_path: Path) -> None:
    cluster = kschedctl.Cluster.from_paths(write(tmp_path))
    wrong = {
        pod: found
        for pod in TRIED.keys() - left_out
        if (found := explain_pod(cluster, pod)["message"]) not in TRIED[pod]
    }
    assert wrong == {}


@pytest.mark.parametrize("case", PLACED, ids=[case["name"] for case in PLACED])
def test_scores(case: Json) -> None:
    """Check that the scheduler's choice is among our best nodes and that every logged score is ours."""
    found, result = explain_pod(kschedctl.Cluster.from_objects(case["objects"]), case["pod"]), case["result"]
    by_node = {
        node: {plugin: scores[node] for plugin, scores in found["weighted"].items()} for node in found["feasible"]
    }
    assert by_node == {node: scored["plugins"] for node, scored in result["scored"].items()}
    assert found["total"] == {node: scored["final"] for node, scored in result["scored"].items()}
    assert sorted(found["best"]) == sorted(result["best"])
    assert result["chosen"] in found["best"]


def test_simulation_has_the_choices_among_its_best_nodes() -> None:
    """Check that each choice of the scheduler is among the best nodes of the simulation."""
    pods = [case["pod"] for case in PLACED]
    scheduler = Scheduler(kschedctl.Cluster.from_objects([*PLACED[0]["objects"], *pods]))
    simulation = Simulation(scheduler)
    framework, view = scheduler.find_framework("default-scheduler"), simulation.view
    for case in PLACED:
        position = view.pods.index[f"lab/{case['pod']['metadata']['name']}"]
        choice = simulation.placements.choose_node(framework, position)
        assert case["result"]["chosen"] in {view.nodes.names[row] for row in choice.tied}
        assert choice.feasible == len(case["result"]["scored"])
        simulation.bind(position, view.nodes.index[case["result"]["chosen"]])


def test_recorded_rollout_is_followed() -> None:
    """The events give the chosen nodes, and every chosen node is among the best."""
    cluster = kschedctl.Cluster.from_objects([*PLACED[0]["objects"], *(case["pod"] for case in PLACED)])
    after = parse_nanoseconds("2030-01-01T00:00:00Z")
    events = [
        RealPlacement(after + i * 10**9, "", f"lab/{case['pod']['metadata']['name']}", case["result"]["chosen"])
        for i, case in enumerate(PLACED)
    ]
    report = replay_rollout(cluster, events)
    assert [each.outcome for each in report.placements] == ["AsReplayed"] * len(PLACED)
    assert [each.feasible for each in report.placements] == [len(case["result"]["scored"]) for case in PLACED]


def test_make_room_for_gpus(recorded_cluster: kschedctl.Cluster) -> None:
    """4 GPUs are requested.

    Of the 4 GPUs on each of two nodes, 2 are used by pods of a Deployment that fit on the other.
    """
    room = kschedctl.make_room(recorded_cluster, "lab/p03-gpu", RoomCriteria(seconds=20))
    assert room.fits
    assert {(move.source, move.target) for move in room.moves} == {("gpu1", "gpu2")}
    assert len(room.moves) == 2
