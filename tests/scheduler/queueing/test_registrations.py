"""What the plugins of a profile ask for, against what kube-scheduler's own plugins do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kschedctl
from kschedctl.scheduler.queueing.events import RESOURCES, ActionType, ClusterEventWithHint
from kschedctl.scheduler.scheduler import Scheduler

WANTED = json.loads((Path(__file__).parents[2] / "golden/over_time/registrations.json").read_text())
GATES = {"default": {}, "gang": {"GenericWorkload": True, "GangScheduling": True}}


@pytest.mark.parametrize("profile", GATES)
def test_plugins_ask_for_what_upstreams_do(profile: str) -> None:
    scheduler = Scheduler(kschedctl.Cluster.from_objects([], feature_gates=GATES[profile]))
    found = scheduler.registrations("default-scheduler").by_plugin
    assert {plugin: sorted(map(written, asked)) for plugin, asked in found.items()} == WANTED[profile]


def test_without_hints_every_event_counts() -> None:
    cluster = kschedctl.Cluster.from_objects([], kube_version="1.32", feature_gates={"SchedulerQueueingHints": False})
    asked = Scheduler(cluster).registrations("default-scheduler").by_plugin
    assert {each.hint for events in asked.values() for each in events} == {None}
    assert asked["SchedulingGates"] == ()
    assert written(asked["NodeName"][0]) == "Node: Add, UpdateNodeLabel, UpdateNodeTaint (always Queue)"


def written(asked: ClusterEventWithHint) -> str:
    single = [each for each in ActionType if each not in (ActionType.UPDATE, ActionType.ALL)]
    every = ActionType.UPDATE in asked.action
    names = [each.label for each in single if each & asked.action and not (every and each in ActionType.UPDATE)]
    names += ["Update"] if every else []
    return f"{RESOURCES[asked.kind]}: {', '.join(names)}{'' if asked.hint else ' (always Queue)'}"
