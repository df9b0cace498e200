"""Compare the events that a profile's plugins register with those of kube-scheduler's own plugins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kschedctl
from kschedctl.scheduler.framework.events import RESOURCES, ActionType, ClusterEventWithHint
from kschedctl.scheduler.scheduler import Scheduler

WANTED = json.loads((Path(__file__).parents[2] / "golden/over_time/registrations.json").read_text())
GATES = {"default": {}, "gang": {"GenericWorkload": True, "GangScheduling": True}}


@pytest.mark.parametrize("profile", GATES)
def test_plugins_register_for_the_events_of_upstreams_plugins(profile: str) -> None:
    scheduler = Scheduler(kschedctl.Cluster.from_objects([], feature_gates=GATES[profile]))
    found = scheduler.get_registrations("default-scheduler").by_plugin
    assert {plugin: sorted(map(write_event, asked)) for plugin, asked in found.items()} == WANTED[profile]


def test_events_have_no_hints_if_hints_are_off() -> None:
    cluster = kschedctl.Cluster.from_objects([], kube_version="1.32", feature_gates={"SchedulerQueueingHints": False})
    asked = Scheduler(cluster).get_registrations("default-scheduler").by_plugin
    assert {each.hint for events in asked.values() for each in events} == {None}
    assert asked["SchedulingGates"] == ()
    assert write_event(asked["NodeName"][0]) == "Node: Add, UpdateNodeLabel, UpdateNodeTaint (always Queue)"


def write_event(asked: ClusterEventWithHint) -> str:
    single = [each for each in ActionType if each not in (ActionType.UPDATE, ActionType.ALL)]
    every = ActionType.UPDATE in asked.action
    names = [each.label for each in single if each & asked.action and not (every and each in ActionType.UPDATE)]
    names += ["Update"] if every else []
    return f"{RESOURCES[asked.kind]}: {', '.join(names)}{'' if asked.hint else ' (always Queue)'}"


TAINT = "Node: UpdateNodeTaint (always Queue)"
WITHOUT_DEVICES = {"DynamicResources": None}
WITHOUT_FEATURES = {"NodeDeclaredFeatures": None}
OLDER_LIMITS = ["PersistentVolumeClaim: Add", "Pod: Delete", "storage.k8s.io/CSINode: Add (always Queue)"]
FIT = ["Node: Add, UpdateNodeAllocatable", TAINT, "Pod: Delete, UpdatePodScaleDown"]
OF_VERSIONS: dict[str, dict[str, list[str] | None]] = {
    "1.35": {**WITHOUT_FEATURES, "NodeResourcesFit": FIT},
    "1.34": {**WITHOUT_FEATURES, "NodeResourcesFit": FIT},
    "1.33": {**WITHOUT_FEATURES, **WITHOUT_DEVICES, "NodeResourcesFit": FIT, "DefaultPreemption": []},
    "1.32": {
        **WITHOUT_FEATURES,
        **WITHOUT_DEVICES,
        "NodeResourcesFit": [*FIT[:2], "Pod: Delete"],
        "DefaultPreemption": [],
        "NodeVolumeLimits": [*OLDER_LIMITS, "storage.k8s.io/VolumeAttachment: Delete (always Queue)"],
    },
}
"""What default plugins ask for otherwise than in 1.36, by EventsToRegister of the release branches; None: no default
plugin there."""


@pytest.mark.parametrize("version", OF_VERSIONS)
def test_registrations_of_older_versions(version: str) -> None:
    cluster = kschedctl.Cluster.from_objects([], kube_version=version)
    found = Scheduler(cluster).get_registrations("default-scheduler").by_plugin
    wanted = {**WANTED["default"], **OF_VERSIONS[version]}
    assert {plugin: sorted(map(write_event, asked)) for plugin, asked in found.items()} == {
        plugin: asked for plugin, asked in wanted.items() if asked is not None
    }


BROAD = "Node: Add, Update (always Queue)"
NODE_LABELS = "Node: Add, UpdateNodeLabel, UpdateNodeTaint (always Queue)"


@pytest.mark.parametrize(
    ("plugin", "asked"),
    [
        ("NodeAffinity", [BROAD]),
        ("NodeName", [BROAD]),
        ("NodePorts", [BROAD, "Pod: Delete (always Queue)"]),
        ("NodeResourcesFit", [BROAD, "Pod: Delete (always Queue)"]),
        ("NodeUnschedulable", [BROAD]),
        ("TaintToleration", [BROAD]),
        ("InterPodAffinity", [NODE_LABELS, "Pod: Add, Delete, UpdatePodLabel (always Queue)"]),
        ("NodeVolumeLimits", [f"{line.removesuffix(' (always Queue)')} (always Queue)" for line in OLDER_LIMITS]),
        (
            "VolumeRestrictions",
            [
                "Node: Add (always Queue)",
                TAINT,
                "PersistentVolumeClaim: Add (always Queue)",
                "Pod: Delete (always Queue)",
            ],
        ),
        ("SchedulingGates", []),
    ],
)
def test_registrations_before_hints(plugin: str, asked: list[str]) -> None:
    cluster = kschedctl.Cluster.from_objects([], kube_version="1.31")
    found = Scheduler(cluster).get_registrations("default-scheduler").by_plugin
    assert sorted(map(write_event, found[plugin])) == asked


EVERY_POD_UPDATE = "Pod: Add, Delete, Update (always Queue)"


@pytest.mark.parametrize(
    ("plugin", "asked"),
    [
        ("InterPodAffinity", [NODE_LABELS, EVERY_POD_UPDATE]),
        ("PodTopologySpread", ["Node: Add, Delete, UpdateNodeLabel, UpdateNodeTaint (always Queue)", EVERY_POD_UPDATE]),
        ("NodeResourcesFit", [BROAD, "Pod: Delete (always Queue)"]),
        (
            "VolumeRestrictions",
            [
                "Node: Add (always Queue)",
                TAINT,
                "PersistentVolumeClaim: Add, Update (always Queue)",
                "Pod: Delete (always Queue)",
            ],
        ),
        (
            "VolumeZone",
            [
                NODE_LABELS,
                "PersistentVolume: Add, Update (always Queue)",
                "PersistentVolumeClaim: Add (always Queue)",
                "storage.k8s.io/StorageClass: Add (always Queue)",
            ],
        ),
        ("SchedulingGates", []),
    ],
)
def test_registrations_of_1_30(plugin: str, asked: list[str]) -> None:
    """Upstream: EventsToRegister of v1.30.10, where hints are off by default."""
    cluster = kschedctl.Cluster.from_objects([], kube_version="1.30")
    found = Scheduler(cluster).get_registrations("default-scheduler").by_plugin
    assert sorted(map(write_event, found[plugin])) == asked
