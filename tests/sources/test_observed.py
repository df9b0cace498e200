"""Check that events, leases and pod statuses are read alike in every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kschedctl.api.events import count_occurrences, get_first_time, get_last_time, get_reporter, parse_scheduled_event
from kschedctl.api.objects import Event
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Cluster
from kschedctl.sources.anonymize.cluster import anonymize_cluster
from kschedctl.sources.archive_file import read_archive, write_archive
from kschedctl.sources.archive_sections import decode_objects, encode_objects
from kschedctl.sources.documents import documents
from kschedctl.sources.read import read_paths

Json = dict[str, Any]
EARLY, BOUND, LATE = "2026-01-31T12:00:00Z", "2026-01-31T12:00:05Z", "2026-01-31T12:30:00Z"
REFUSAL = "0/3 nodes are available: 3 Insufficient cpu."
OUT_OF_CPU = "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 3500, capacity: 4000"
CORE = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "web.1", "namespace": "shop", "creationTimestamp": EARLY},
    "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": "u"},
    "reason": "FailedScheduling",
    "message": REFUSAL,
    "type": "Warning",
    "source": {"component": "default-scheduler"},
    "count": 4,
    "firstTimestamp": EARLY,
    "lastTimestamp": LATE,
    "eventTime": None,
    "reportingComponent": "default-scheduler",
    "reportingInstance": "default-scheduler-cp1",
}
NEWER = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": CORE["metadata"],
    "regarding": CORE["involvedObject"],
    "reason": "FailedScheduling",
    "note": REFUSAL,
    "type": "Warning",
    "deprecatedSource": {"component": "default-scheduler"},
    "deprecatedCount": 4,
    "deprecatedFirstTimestamp": EARLY,
    "deprecatedLastTimestamp": LATE,
    "eventTime": None,
    "reportingController": "default-scheduler",
    "reportingInstance": "default-scheduler-cp1",
}
PULLED = CORE | {"metadata": {"name": "web.2", "namespace": "shop"}, "reason": "Pulled"}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
    "spec": {
        "holderIdentity": "cp1_0b5",
        "leaseDurationSeconds": 15,
        "acquireTime": EARLY,
        "renewTime": LATE,
        "leaseTransitions": 2,
    },
}
HEARTBEAT = LEASE | {"metadata": {"name": "n1", "namespace": "kube-node-lease"}}


def build_condition(kind: str, status: str, time: str, **fields: Any) -> Json:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": time, **fields}


def build_pod(name: str, node: str = "", **status: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})},
        "status": status,
    }


PODS = [
    build_pod("evicting", "n1", phase="Running", conditions=[
        build_condition("Ready", "True", EARLY),
        build_condition("PodScheduled", "True", BOUND),
        build_condition("DisruptionTarget", "True", LATE, reason="PreemptionByScheduler", message="preempting"),
    ]),
    build_pod("refused", "n1", phase="Failed", reason="OutOfcpu", message=OUT_OF_CPU, startTime=BOUND),
    build_pod("running", "n1", phase="Running", startTime=LATE, conditions=[
        build_condition("PodScheduled", "True", BOUND),
    ]),
    build_pod("timeless", "n1", phase="Running", conditions=[
        {"type": "Ready", "status": "True", "lastTransitionTime": None}, {"type": "PodScheduled", "status": "True"},
    ]),
    build_pod("waiting", phase="Pending", conditions=[
        build_condition("PodScheduled", "False", BOUND, reason="Unschedulable", message=REFUSAL)
    ]),
]  # fmt: skip


def read_file(folder: Path, document: Any) -> Cluster:
    path = folder / "objects.json"
    path.write_text(json.dumps(document))
    return Cluster.of(read_paths([str(path)]).objects)


@pytest.mark.parametrize("document", [CORE, NEWER])
@pytest.mark.parametrize("small", [True, False])
def test_event_is_read_alike_in_both_versions(
    document: Json, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:
        monkeypatch.setattr("kschedctl.sources.read.SMALL", 10)
        monkeypatch.setattr(documents, "SMALL", 10)
    listed = {"kind": "List", "apiVersion": "v1", "items": [PULLED, document, PULLED]}
    (event,) = read_file(tmp_path, listed).events
    assert (event.message, event.involved_object.name, event.reason) == (REFUSAL, "web", "FailedScheduling")
    assert (get_first_time(event), get_last_time(event), count_occurrences(event)) == (EARLY, LATE, 4)
    assert (get_reporter(event), event.reporting_instance) == ("default-scheduler", "default-scheduler-cp1")
    assert parse_scheduled_event(event) is None
    assert (event.note, event.regarding, event.deprecated_count) == ("", None, 0)


def test_time_of_a_series_is_its_last_observation() -> None:
    series = {"count": 7, "lastObservedTime": LATE}
    document = NEWER | {"eventTime": BOUND, "series": series, "deprecatedCount": 0, "deprecatedLastTimestamp": None}
    (event,) = Cluster.from_objects([document]).events
    assert (get_first_time(event), get_last_time(event), count_occurrences(event)) == (BOUND, LATE, 7)


def test_unrelated_events_are_ignored(tmp_path: Path) -> None:
    unnamed, older = CORE | {"metadata": {}}, CORE | {"apiVersion": "events.k8s.io/v1beta1"}
    items = [LEASE, HEARTBEAT, PULLED, unnamed, older]
    cluster = read_file(tmp_path, {"kind": "List", "apiVersion": "v1", "items": items})
    assert [lease.metadata.name for lease in cluster.leases] == ["kube-scheduler"]
    spec = cluster.leases[0].spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("cp1_0b5", 15, 2)
    assert (spec.acquire_time, spec.renew_time) == (EARLY, LATE)
    assert cluster.events == ()


def get_columns(table: PodTable) -> dict[str, tuple[str, ...]]:
    own = table.columns
    rows = zip(
        own.scheduled.texts(),
        own.disrupted.texts(),
        own.message.texts(),
        own.unschedulable_message.texts(),
        strict=True,
    )
    return dict(zip(table.names, rows, strict=True))


EXPECTED = {
    "evicting": (BOUND, LATE, "", ""),
    "refused": ("", "", OUT_OF_CPU, ""),
    "running": (BOUND, "", "", ""),
    "timeless": ("", "", "", ""),
    "waiting": (BOUND, "", "", REFUSAL),
}


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("spaces", [None, 1])
def test_status_is_kept_in_every_form(
    small: bool, spaces: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods are read one by one, as long lists, and through a snapshot."""
    if not small:
        monkeypatch.setattr("kschedctl.sources.read.SMALL", 10)
        monkeypatch.setattr(documents, "SMALL", 10)
    path = tmp_path / "pods.json"
    path.write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": PODS}, indent=spaces))
    table = Cluster.of(read_paths([str(path)]).objects).pods
    assert get_columns(table) == EXPECTED
    assert get_columns(table.apply_changes({("shop", "running"): None})) == {
        name: row for name, row in EXPECTED.items() if name != "running"
    }
    write_archive(Cluster(pods=table), str(tmp_path / "snapshot"))
    assert get_columns(read_archive(str(tmp_path / "snapshot")).pods) == EXPECTED


def test_pod_has_the_values_of_its_status() -> None:
    table = Cluster.from_objects(PODS).pods
    evicting, refused, _, _, waiting = table
    assert (refused.status.reason, refused.status.message) == ("OutOfcpu", OUT_OF_CPU)
    (scheduled,) = waiting.status.conditions
    assert (scheduled.reason, scheduled.message, scheduled.last_transition_time) == ("Unschedulable", REFUSAL, BOUND)
    target = evicting.status.conditions[1]
    assert (target.type, target.reason, target.last_transition_time) == (
        "DisruptionTarget",
        "PreemptionByScheduler",
        LATE,
    )
    assert get_columns(PodTable.from_pods(list(table))) == EXPECTED | {
        "evicting": ("", LATE, "", ""),  # that PodScheduled holds is not on a pod that was made
        "running": ("", "", "", ""),
    }


def test_times_and_messages_do_not_separate_templates() -> None:
    alike = [
        build_pod(f"w{n}", phase="Pending", conditions=[
            build_condition(
                "PodScheduled", "False", f"2026-01-31T12:00:0{n}Z", reason="Unschedulable", message=f"{n} nodes"
            )
        ])
        for n in range(5)
    ]  # fmt: skip
    assert len(Cluster.from_objects(alike).pods.templates) == 1


def test_older_snapshots_have_no_observations() -> None:
    import msgspec  # noqa: PLC0415

    table = Cluster.from_objects(PODS).pods
    record = msgspec.msgpack.decode(encode_objects("Pod", table))
    before: Any = decode_objects("Pod", msgspec.msgpack.encode(record[:12]), len(PODS))
    assert set(get_columns(before).values()) == {("", "", "", "")}
    assert before.names == table.names


def test_anonymized_events_contain_no_names() -> None:
    scheduled = CORE | {
        "metadata": {"name": "web.3", "namespace": "shop"},
        "reason": "Scheduled",
        "message": "Successfully assigned shop/web to acme-7",
    }
    preempted = CORE | {
        "metadata": {"name": "web.4", "namespace": "shop"},
        "reason": "Preempted",
        "message": "Preempted by pod acme-uid on node acme-7",
    }
    led = CORE | {
        "metadata": {"name": "web.5", "namespace": "shop"},
        "reason": "LeaderElection",
        "message": "acme-cp1_0b5 became leader",
    }
    out = CORE | {"metadata": {"name": "web.6", "namespace": "shop"}, "reason": "OutOfacme.com/fpga"}
    lease = LEASE | {"spec": {"holderIdentity": "acme-cp1_0b5"}}
    secret = CORE | {"message": 'persistentvolumeclaim "acme-data" not found', "reportingInstance": "acme-9"}
    refused = PODS[1] | {"status": {"phase": "Failed", "reason": "OutOfacme.com/fpga", "message": "acme"}}
    cluster = Cluster.from_objects([scheduled, preempted, led, out, lease, secret, refused])
    made = anonymize_cluster(cluster).cluster
    assert "acme" not in str((made.events, made.leases, list(made.pods)))
    events = {event.reason: event for event in made.events}
    assert parse_scheduled_event(events["Scheduled"]) is not None
    assert events["LeaderElection"].message == f"{made.leases[0].spec.holder_identity} became leader"
    assert made.leases[0].metadata.name == "kube-scheduler"
    assert (events["FailedScheduling"].message, get_reporter(events["Scheduled"])) == ("", "default-scheduler")
    assert isinstance(events["Preempted"], Event)
    assert events["Preempted"].message.startswith("Preempted by pod x")
