"""Check that fixes come in the order of an experienced operator: ``operators_order.yaml``."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from golden_cases import SETTINGS, Json, iter_family_lines
from waiting_73 import NOW, explain_waiting_pod

from kschedctl import demo
from kschedctl.autoscaling.node_groups.discovery import UserGroups
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import explain_in_cluster, resolve_pod
from kschedctl.fixes.new_node import find_autoscaler_fixes, predict_new_node
from kschedctl.fixes.search import MOST_TRIALS, RemedySearch
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.remedy import Remedy
from kschedctl.scheduler.scheduler import Scheduler

RECORDING = Path(__file__).parents[2] / "recordings" / "pending.json.xz"
FIELD = Path(__file__).parents[2] / "field"
NO_POD = "none"
TABLE: dict[str, dict[str, Json]] = yaml.load(
    (Path(__file__).parent / "operators_order.yaml").read_text(), yaml.CSafeLoader
)
PODS = [(source, name) for source, pods in TABLE.items() for name in pods]


@cache
def build_scheduler(source: str) -> Scheduler:
    """Return the scheduler of all rows of a source, so that the queue is replayed without a fix only once."""
    if source == "demo":
        documents = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in demo.list_files()]
        return Scheduler(Cluster.from_objects([found for document in documents for found in document["items"]]))
    with lzma.open(RECORDING, "rt", encoding="utf-8") as file:
        return Scheduler(Cluster.from_objects(json.load(file)["objects"]))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the search enough time to try all fixes on a busy machine."""
    monkeypatch.setattr(RemedySearch, "_has_reached_limit", lambda search: search.trials.replayed > MOST_TRIALS)


def build_question(source: str, name: str) -> tuple[Scheduler, str, UserGroups]:
    """Return the scheduler, the pod and the node groups of a row of the table.

    Names of rows: ``namespace/name`` of a pod; ``family number`` of a golden case; ``file namespace/name`` of a field
    situation, whose node groups are in ``groups.yaml`` beside the file.
    """
    if source == "golden":
        family, number = name.split()
        case = json.loads(iter_family_lines(family)[int(number)])
        settings = {key: case[field] for key, field in SETTINGS.items() if field in case}
        return Scheduler(Cluster.from_objects(case["objects"], **settings)), case["pod"], UserGroups()
    if source == "field":
        file, pod = name.split()
        groups = (FIELD / file).with_name("groups.yaml")
        given = (
            UserGroups(yaml.load(groups.read_text(), yaml.CSafeLoader)["nodeGroups"])
            if groups.exists()
            else UserGroups()
        )
        items = yaml.load((FIELD / file).read_text(), yaml.CSafeLoader)["items"]
        return Scheduler(Cluster.from_objects(items)), pod, given
    return build_scheduler(source), name, UserGroups()


def list_offered_fixes(source: str, name: str) -> tuple[Remedy, ...]:
    """Return the fixes that ``explain`` shows for a row of the table."""
    if source == "queue":
        return explain_waiting_pod(name).remedies
    scheduler, pod, given = build_question(source, name)
    if pod == NO_POD:
        assert not any(not pod.spec.node_name for pod in scheduler.cluster.pods)
        return ()
    return explain_in_cluster(
        TargetPod(scheduler, resolve_pod(scheduler, pod)),
        lambda asked: predict_new_node(asked, NOW, given),
        lambda asked, told: find_autoscaler_fixes(asked, told, NOW, given),
        remedies=True,
    ).remedies


def test_table_is_complete_and_each_row_has_a_reason() -> None:
    assert len(PODS) >= 60 + 16 + 30
    assert len({name.split("/")[0] for name in TABLE["field"]}) == 16
    assert len(TABLE["queue"]) >= 30
    assert all(row["why"] for rows in TABLE.values() for row in rows.values())


@pytest.mark.parametrize(("source", "name"), PODS)
def test_remedies_are_in_the_order_of_an_operator(source: str, name: str) -> None:
    wanted, remedies = TABLE[source][name], list_offered_fixes(source, name)
    kinds = list(dict.fromkeys("+".join(sorted(remedy.kinds)) for remedy in remedies))
    order = ["+".join(sorted(each.split("+"))) for each in wanted["order"]]
    assert kinds[: len(order)] == order, kinds
    assert wanted["order"] or not kinds
    assert not [each for each in wanted.get("never", ()) if any(is_offered(each, remedies))]


def is_offered(unwanted: str, remedies: tuple[Remedy, ...]) -> Iterator[bool]:
    """Yield whether the remedies have a kind, or a kind with a word of its summary."""
    kind, *words = unwanted.split()
    return (kind in remedy.kinds and all(word in remedy.summary for word in words) for remedy in remedies)
