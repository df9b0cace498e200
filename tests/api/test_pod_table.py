"""Check that a table of pods returns the pods that were put in, without the fields that scheduling does not read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kschedctl.api.columns import build_time_column, build_uid_column, concatenate_columns
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

UID = "d874b460-08fe-4508-a8ae-be43adb0d7b7"


def build_pod(name: str, namespace: str = "shop", node: str = "", phase: str = "Running", app: str = "web") -> Pod:
    return Pod(
        PodMeta(name, namespace, f"uid-{name}", {"app": app}, creation_timestamp="2026-01-01T00:00:00Z"),
        PodSpec(node_name=node),
        PodStatus(phase, start_time="2026-01-01T00:00:01Z" if node else None),
    )


PODS = [
    build_pod("b"),
    build_pod("a", node="n2"),
    build_pod("z", "data"),
    build_pod("c", node="n1", phase="Succeeded"),
    build_pod("a", "data", app="db"),
]


def test_pods_are_returned_sorted_and_equal() -> None:
    table = PodTable.from_pods(PODS)
    assert list(table) == sorted(PODS, key=lambda p: (p.metadata.namespace, p.metadata.name))
    assert len(table.templates) == 4  # by namespace, label and phase
    assert table[0] is table[0]
    assert table[-1].metadata.name == "c"
    assert table[1:3] == (table[1], table[2])
    assert table.keys() == [p.key for p in table]
    assert PodTable.from_pods(table) is table


def test_later_pod_of_the_same_name_counts() -> None:
    assert [p.spec.node_name for p in PodTable.from_pods([build_pod("a"), build_pod("a", node="n1")])] == ["n1"]


def test_pods_are_found_and_selected() -> None:
    table = PodTable.from_pods(PODS)
    assert table.find("data", "z") == PODS[2]
    assert table.find("shop", "z") is None
    assert table.find("nowhere", "z") is None
    assert [p.key for p in table.iter_unbound_pods()] == ["data/a", "data/z", "shop/b"]
    assert [p.key for p in table.drop_terminated()] == ["data/a", "data/z", "shop/a", "shop/b"]
    assert table.drop_terminated().drop_terminated() is not None


def test_table_is_changed() -> None:
    table = PodTable.from_pods(PODS)
    changed = table.apply_changes(
        {("shop", "a"): None, ("shop", "b"): build_pod("b", node="n9"), ("new", "x"): build_pod("x", "new")}
    )
    assert changed.keys() == ["data/a", "data/z", "new/x", "shop/b", "shop/c"]
    found = changed.find("shop", "b")
    assert found is not None
    assert found.spec.node_name == "n9"
    assert table.apply_changes({}) is table
    empty = table.apply_changes({(p.metadata.namespace, p.metadata.name): None for p in table})
    assert list(empty) == []
    assert empty.find("shop", "a") is None
    assert list(empty.apply_changes({("shop", "a"): PODS[1]})) == [PODS[1]]


def test_unread_fields_are_dropped() -> None:
    noisy = build_pod("a", node="n1")
    volumes = (Volume("token"), Volume("scratch", ephemeral=EphemeralVolumeSource()))
    scheduled = Condition("PodScheduled", "True", last_transition_time="2026-01-01T00:00:00Z")
    ready = Condition("Ready", "False", "ContainersNotReady", "containers with unready status", "2026-01-01T00:00:00Z")
    resize = Condition("PodResizePending", "True", "Deferred", "later")
    noisy = replace(
        noisy,
        spec=replace(noisy.spec, volumes=volumes),
        status=replace(noisy.status, conditions=(scheduled, ready, resize, Condition("Initialized", "True"))),
    )
    (kept,) = PodTable.from_pods([noisy])
    assert kept.spec.volumes == volumes[1:]
    assert kept.status.conditions == (Condition("Ready", "False"), resize)


NAMES = st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from("xyz"))
PODS_BY_NAME = st.dictionaries(NAMES, st.tuples(st.sampled_from(["", "n1", "n2"]), st.sampled_from(["", "u", UID])))


def build_pods(found: dict[tuple[str, str], tuple[str, str]]) -> dict[tuple[str, str], Pod]:
    """Build pods from one template per namespace, or from one per invalid UID."""
    pods = {}
    for (namespace, name), (node, uid) in found.items():
        labels = {"uid": uid} if uid == "u" else {}
        meta = PodMeta(name, namespace, uid, labels, creation_timestamp="2026-01-31T12:00:00Z" if uid else None)
        pods[namespace, name] = Pod(meta, PodSpec(node_name=node))
    return pods


@given(PODS_BY_NAME, PODS_BY_NAME, st.sets(NAMES))
def test_changed_table_equals_that_of_the_changed_pods(
    before: dict[Any, Any], changes: dict[Any, Any], gone: set[tuple[str, str]]
) -> None:
    pods, changed = build_pods(before), build_pods(changes)
    table = PodTable.from_pods(pods.values()).apply_changes(dict.fromkeys(gone - changed.keys()) | changed)
    kept = {key: pod for key, pod in pods.items() if key not in gone} | changed
    expected = [pod for _, pod in sorted(kept.items())]
    assert list(table) == expected
    assert table.list_keys() == sorted(kept)
    assert len(table.templates) == len({(pod.metadata.namespace, *pod.metadata.labels) for pod in expected})
    assert [table.find(*key) for key in sorted(pods.keys() | changed.keys())] == [
        kept.get(key) for key in sorted(pods.keys() | changed.keys())
    ]


def test_pods_without_a_namespace_get_one() -> None:
    own, none, other = build_pod("a", "shop", node="n1"), build_pod("a", ""), build_pod("b", "")
    table = PodTable.from_pods([own, none, other]).with_default_namespace("shop")
    assert table.keys() == ["shop/a", "shop/b"]
    assert [p.spec.node_name for p in table] == ["n1", ""]
    assert table.with_default_namespace("data") is table


@pytest.mark.parametrize(
    "texts",
    [
        ["2026-01-31T12:00:00Z", "", "1969-12-31T23:59:59Z"],
        ["2026-01-31T24:00:00Z"],
        ["2026-02-30T00:00:00Z"],
        ["2026-01-31T12:00:00Z\n", "2026-01-31T12:00:00Z"],
        ["\u0662026-01-31T12:00:00Z"],
        [UID, "", UID],
        [UID, UID + "\n"],
        ["00000000-0000-0000-0000-000000000000", ""],
        [UID.upper()],
    ],
)
def test_columns_return_their_texts(texts: list[str]) -> None:
    for column in (
        build_time_column(texts),
        build_uid_column(texts),
        concatenate_columns([build_time_column(texts), build_uid_column(texts)]),
    ):
        assert column.texts()[-len(texts) :] == texts
        assert column.get_text(0) == texts[0]


def test_pods_are_found_by_name_in_all_namespaces() -> None:
    keys = (("b", "web"), ("a", "web"), ("a", "db"), ("c", "web-1"))
    table = PodTable.from_pods(Pod(PodMeta(name=name, namespace=namespace)) for namespace, name in keys)
    assert [pod.key for pod in table.find_named("web")] == ["a/web", "b/web"]
    assert table.find_named("we") == []


def test_key_is_read_without_building_the_pod() -> None:
    table = PodTable.from_pods([Pod(PodMeta(name="web", namespace="b")), Pod(PodMeta(name="db", namespace="a"))])
    assert [table.get_key(row) for row in range(2)] == [pod.key for pod in table]
