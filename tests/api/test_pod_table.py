"""A table of pods gives the pods that were put in, less what scheduling does not read."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.api.objects import (
    Condition,
    EphemeralVolumeSource,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    Volume,
)
from kschedctl.api.pod_table import PodTable


def pod(name: str, namespace: str = "shop", node: str = "", phase: str = "Running", app: str = "web") -> Pod:
    return Pod(
        PodMeta(name, namespace, f"uid-{name}", {"app": app}, creation_timestamp="2026-01-01T00:00:00Z"),
        PodSpec(node_name=node),
        PodStatus(phase, start_time="2026-01-01T00:00:01Z" if node else None),
    )


PODS = [
    pod("b"),
    pod("a", node="n2"),
    pod("z", "data"),
    pod("c", node="n1", phase="Succeeded"),
    pod("a", "data", app="db"),
]


def test_pods_come_back_sorted_and_equal() -> None:
    table = PodTable.of(PODS)
    assert list(table) == sorted(PODS, key=lambda p: (p.metadata.namespace, p.metadata.name))
    assert len(table.templates) == 4  # by namespace, label and phase
    assert table[0] is table[0]
    assert table[-1].metadata.name == "c"
    assert table[1:3] == (table[1], table[2])
    assert table.keys() == [p.key for p in table]
    assert PodTable.of(table) is table


def test_the_later_of_two_pods_of_a_name_counts() -> None:
    assert [p.spec.node_name for p in PodTable.of([pod("a"), pod("a", node="n1")])] == ["n1"]


def test_finding_and_choosing() -> None:
    table = PodTable.of(PODS)
    assert table.find("data", "z") == PODS[2]
    assert table.find("shop", "z") is None
    assert table.find("nowhere", "z") is None
    assert [p.key for p in table.unbound()] == ["data/a", "data/z", "shop/b"]
    assert [p.key for p in table.alive()] == ["data/a", "data/z", "shop/a", "shop/b"]
    assert table.alive().alive() is not None


def test_changes() -> None:
    table = PodTable.of(PODS)
    changed = table.with_changes(
        {("shop", "a"): None, ("shop", "b"): pod("b", node="n9"), ("new", "x"): pod("x", "new")}
    )
    assert changed.keys() == ["data/a", "data/z", "new/x", "shop/b", "shop/c"]
    found = changed.find("shop", "b")
    assert found is not None
    assert found.spec.node_name == "n9"
    assert table.with_changes({}) is table
    empty = table.with_changes({(p.metadata.namespace, p.metadata.name): None for p in table})
    assert list(empty) == []
    assert empty.find("shop", "a") is None
    assert list(empty.with_changes({("shop", "a"): PODS[1]})) == [PODS[1]]


def test_noise_is_left_out() -> None:
    noisy = pod("a", node="n1")
    volumes = (Volume("token"), Volume("scratch", ephemeral=EphemeralVolumeSource()))
    scheduled = Condition("PodScheduled", "True", last_transition_time="2026-01-01T00:00:00Z")
    ready = Condition("Ready", "False", "ContainersNotReady", "containers with unready status", "2026-01-01T00:00:00Z")
    resize = Condition("PodResizePending", "True", "Deferred", "later")
    noisy = replace(
        noisy,
        spec=replace(noisy.spec, volumes=volumes),
        status=replace(noisy.status, conditions=(scheduled, ready, resize, Condition("Initialized", "True"))),
    )
    (kept,) = PodTable.of([noisy])
    assert kept.spec.volumes == volumes[1:]
    assert kept.status.conditions == (Condition("Ready", "False"), resize)
