"""Remedies stand in the order in which an experienced operator would try them: ``operators_order.yaml``."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from golden_cases import SETTINGS, Json, family_lines

from kschedctl import demo
from kschedctl.cluster import Cluster
from kschedctl.reports.remedies import Remedy
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import explain_pod, stand_in_of
from kschedctl.studies.remedies.remedies import with_remedies
from kschedctl.studies.remedies.search import MOST_TRIALS, RemedySearch

RECORDING = Path(__file__).parents[2] / "recordings" / "pending.json.xz"
TABLE: dict[str, dict[str, Json]] = yaml.load(
    (Path(__file__).parent / "operators_order.yaml").read_text(), yaml.CSafeLoader
)
PODS = [(source, name) for source, pods in TABLE.items() for name in pods]


@cache
def cluster_of(source: str) -> Cluster:
    if source == "demo":
        documents = [yaml.load(file.read_text(), yaml.CSafeLoader) for file in demo.files()]
        return Cluster.from_objects([found for document in documents for found in document["items"]])
    with lzma.open(RECORDING, "rt", encoding="utf-8") as file:
        return Cluster.from_objects(json.load(file)["objects"])


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, all is tried."""
    monkeypatch.setattr(RemedySearch, "_over", lambda search: search.trials.replayed > MOST_TRIALS)


def offered(source: str, name: str) -> tuple[Remedy, ...]:
    """What explain tells of a pod of a cluster, or of a golden case: ``family number``."""
    if source != "golden":
        cluster, pod = cluster_of(source), name
    else:
        family, number = name.split()
        case = json.loads(family_lines(family)[int(number)])
        settings = {key: case[field] for key, field in SETTINGS.items() if field in case}
        cluster, pod = Cluster.from_objects(case["objects"], **settings), case["pod"]
    asked = stand_in_of(Scheduler(cluster), pod)
    return with_remedies(explain_pod(asked.scheduler, asked.pod), asked).remedies


def test_there_are_sixty_pods_and_each_has_its_reason() -> None:
    assert len(PODS) >= 60
    assert all(TABLE[source][name]["why"] for source, name in PODS)


@pytest.mark.parametrize(("source", "name"), PODS)
def test_remedies_stand_in_the_order_of_an_operator(source: str, name: str) -> None:
    wanted, remedies = TABLE[source][name], offered(source, name)
    kinds = list(dict.fromkeys("+".join(sorted(remedy.kinds)) for remedy in remedies))
    order = ["+".join(sorted(each.split("+"))) for each in wanted["order"]]
    assert kinds[: len(order)] == order, kinds
    assert wanted["order"] or not kinds
    assert not [each for each in wanted.get("never", ()) if any(is_offered(each, remedies))]


def is_offered(unwanted: str, remedies: tuple[Remedy, ...]) -> Iterator[bool]:
    """Whether a kind, or a kind with a word of its sentence, is among the remedies."""
    kind, *words = unwanted.split()
    return (kind in remedy.kinds and all(word in remedy.summary for word in words) for remedy in remedies)
