"""Check that anonymized snapshots give the same answers and contain no original names."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_cases import FAMILIES, SETTINGS, iter_family_lines
from test_archive_file import build_recorded_cluster, read_demo_cluster, unpack_sections

import kschedctl
from kschedctl.api import objects as api
from kschedctl.api.kinds import KINDS
from kschedctl.cluster import Cluster, Provenance
from kschedctl.sources.anonymize.cluster import anonymize_cluster
from kschedctl.sources.anonymize.fields import FIELDS
from kschedctl.sources.anonymize.kept_texts import KEPT_FIELDS, is_well_known_key
from kschedctl.sources.archive_file import read_archive, write_archive

PSEUDONYM = re.compile(r"x\d{4,}")


def get_pseudonym(originals: dict[str, str], cluster: Cluster, made: Cluster, key: str) -> str:
    """Return the new ``namespace/name`` of a pod, found by its position."""
    place = [pod.key for pod in sorted(cluster.pods, key=lambda p: (p.metadata.namespace, p.metadata.name))].index(key)
    return made.pods[place].key


def restore_originals(document: Any, originals: dict[str, str]) -> Any:
    """Return a document with the originals put back."""

    def original(match: re.Match[str]) -> str:
        start, made = match[0][: -len(match[1])], match[1]
        found = originals.get(match[0]) or start + originals[made]
        return json.dumps(found)[1:-1]

    return json.loads(re.sub(r"[a-z0-9.-]*?(x\d{4,})", original, json.dumps(document)))


@pytest.mark.parametrize("make", [read_demo_cluster, build_recorded_cluster])
def test_answers_equal_the_originals_word_for_word(make: Any, tmp_path: Path) -> None:
    cluster = make()
    made, originals, _ = anonymize_cluster(cluster)
    write_archive(made, str(tmp_path / "s"), anonymized=True)
    again = read_archive(str(tmp_path / "s"))
    for pod in cluster.unbound_pods():
        found = kschedctl.explain(again, get_pseudonym(originals, cluster, again, pod.key)).to_dict()
        assert restore_originals(found, originals) == kschedctl.explain(cluster, pod.key).to_dict()


@pytest.mark.parametrize("make", [read_demo_cluster, build_recorded_cluster])
def test_file_contains_no_original_text(make: Any, tmp_path: Path) -> None:
    """Every text of every object is searched for as a whole word, except texts that have to stay."""
    cluster = make()
    made, _, stays = anonymize_cluster(cluster)
    write_archive(made, str(tmp_path / "s"), anonymized=True, stays=stays)
    everything = unpack_sections(tmp_path / "s").decode("utf-8", "replace").replace("".join(stays), "")
    found = {text for kind in KINDS.values() for obj in getattr(cluster, kind.field) for text in list_texts(obj)}
    words = set(re.findall(r"[\w./-]+", everything))
    left = {text for text in found & words if not is_well_known_key(text)}
    assert left <= API_WORDS, left - API_WORDS
    assert len(found - left) > 100


API_WORDS = {
    *("apps/v1", "v1", "batch/v1", "resource.k8s.io", "resource.k8s.io/v1", "kubernetes.io/no-provisioner"),
    *("Pod", "Node", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PersistentVolumeClaim", "ResourceClaim", "pods"),
    *("Deployment", "DisruptionTarget", "PreemptionByScheduler", "model"),  # model: a device attribute
    *("NoSchedule", "NoExecute", "PreferNoSchedule", "Equal", "Exists", "In", "NotIn", "DoesNotExist", "Gt", "Lt"),
    *(
        "Pending",
        "Running",
        "Succeeded",
        "Failed",
        "Bound",
        "Available",
        "Active",
        "Always",
        "Never",
        "True",
        "False",
        "Unknown",
    ),
    *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "PodScheduled", "SchedulingGated", "Unschedulable"),
    *("KubeletReady", "KubeletHasSufficientMemory", "KubeletHasNoDiskPressure", "KubeletHasSufficientPID"),
    *("DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "PreemptLowerPriority", "AlwaysAllow", "IfHealthyBudget"),
    *("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod", "Filesystem", "Block"),
    *("WaitForFirstConsumer", "Immediate", "ExactCount", "All", "TCP", "UDP", "Delete", "Retain", "yes", "true"),
    *("default-scheduler", "system-node-critical", "system-cluster-critical"),
}
"""Texts that the API itself puts into objects."""


def list_texts(value: Any) -> set[str]:
    """Return all texts with a letter in an object, including keys, but without quantities and times."""
    if isinstance(value, api.Struct):
        fields = (getattr(value, field) for field in value.__struct_fields__)
        return {text for field in fields for text in list_texts(field)}
    if isinstance(value, dict):
        return {text for pair in value.items() for item in pair for text in list_texts(item)}
    if isinstance(value, tuple | list):
        return {text for item in value for text in list_texts(item)}
    is_text = (
        isinstance(value, str) and re.search("[A-Za-z]{2}", value) and not re.fullmatch(r"[\d.]+[kKMGTPEi]*", value)
    )
    return {value} if is_text and len(value) > 2 else set()


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_clusters_give_the_same_answers(family: str) -> None:
    """These are clusters that kube-scheduler was asked about. Verdict, scores, reasons and choices are the same."""
    for case in map(json.loads, iter_family_lines(family)[::12]):
        settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
        cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
        try:
            expected = kschedctl.explain(cluster, case["pod"]).to_dict()
        except kschedctl.KschedctlError:
            continue
        made, originals, _ = anonymize_cluster(cluster)
        found = kschedctl.explain(made, get_pseudonym(originals, cluster, made, case["pod"])).to_dict()
        assert get_comparable_answers(restore_originals(found, originals)) == get_comparable_answers(expected), case[
            "id"
        ]


def get_comparable_answers(document: dict[str, Any]) -> dict[str, Any]:
    """Return the answers of plugins without the facts, whose numbers may be ranked by name."""
    kept = ("verdict", "message", "nodeOrder", "queue", "preFilter", "filter", "firstFail", "feasible")
    scores = ("score", "normalized", "weighted", "total", "best")
    preemption = document["preemption"] and {k: v for k, v in document["preemption"].items() if k != "candidates"}
    victims = document["preemption"] and {n: c["victims"] for n, c in document["preemption"]["candidates"].items()}
    found = {key: document[key] for key in kept + scores} | {"preemption": preemption, "victims": victims}
    return drop_positions(found)


def drop_positions(value: Any) -> Any:
    """Return CEL errors without the column and the quoted line, which depend on the texts."""
    if isinstance(value, str):
        return re.sub(r"\n \|[^\n]*", "", re.sub(r"<input>:\d+:\d+", "<input>", value))
    if isinstance(value, dict):
        return {key: drop_positions(item) for key, item in value.items()}
    return [drop_positions(item) for item in value] if isinstance(value, list) else value


def test_every_text_field_is_classified() -> None:
    """A new field must say whether it holds a name."""
    structs, waiting = set[type](), [kind.struct for kind in KINDS.values()]
    while waiting:
        struct = waiting.pop()
        if struct not in structs:
            structs.add(struct)
            waiting += [inner for field in msgspec.structs.fields(struct) for inner in _list_inner_structs(field.type)]
    for struct in structs:
        decided = {*FIELDS.get(struct, {}), *KEPT_FIELDS.get(struct, "").split()}
        texts = {field.name for field in msgspec.structs.fields(struct) if _holds_texts(field.type)}
        assert texts <= decided, struct
        assert decided <= {field.name for field in msgspec.structs.fields(struct)}, struct


def _list_inner_structs(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and issubclass(annotation, api.Struct):
        return [annotation]
    return [struct for inner in getattr(annotation, "__args__", ()) for struct in _list_inner_structs(inner)]


def _holds_texts(annotation: Any) -> bool:
    arguments = getattr(annotation, "__args__", ())
    return annotation is str or (not _list_inner_structs(annotation) and any(map(_holds_texts, arguments)))


def test_compared_numbers_keep_their_order() -> None:
    labels = [{"cores": "8"}, {"cores": "016"}, {"cores": "many"}, {"cores": "32"}]
    nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": found}} for i, found in enumerate(labels)]
    term = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"affinity": affinity}}
    made, *_ = anonymize_cluster(kschedctl.Cluster.from_objects([*nodes, pod]))
    values = [value for node in made.nodes for value in node.metadata.labels.values()]
    assert values[:2] == ["0", "01"]
    assert PSEUDONYM.fullmatch(values[2])
    assert values[3] == "2"


def test_invalid_label_value_stays_invalid() -> None:
    """The scheduler rejects the selector because of it. Signs of compared numbers stay for the same reason."""
    made, *_ = anonymize_cluster(
        kschedctl.Cluster.from_objects([_build_preferring_pod("-1"), _build_preferring_pod("no label")])
    )
    terms = [p.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution for p in made.pods]  # type: ignore[union-attr]
    values = {requirement.values for (term,) in terms for requirement in term.preference.match_expressions}
    assert ("-1",) in values
    assert any(PSEUDONYM.fullmatch(value[:-1]) and value.endswith("?") for (value,) in values)


def _build_preferring_pod(value: str) -> dict[str, Any]:
    expression = {"key": "k", "operator": "Gt" if value == "-1" else "In", "values": [value]}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"kind": "Pod", "metadata": {"name": f"p{len(value)}"}, "spec": {"affinity": affinity}}


def test_image_without_a_tag_stays_latest() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"images": [{"names": ["web:latest", "r:5000/web"]}]}}
    containers = [
        {"name": "a", "image": "web"},
        {"name": "b", "image": "r:5000/web"},
        {"name": "c", "image": "web@sha256:1"},
    ]
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    made, *_ = anonymize_cluster(kschedctl.Cluster.from_objects([node, pod]))
    held, (bare, port, digest) = made.nodes[0].status.images[0].names, made.pods[0].spec.containers
    assert held[0] == f"{bare.image}:latest"
    assert held[1] == port.image
    assert ":" not in port.image
    assert re.fullmatch(r"x\d+:x\d+", digest.image)


def test_cluster_cannot_be_identified() -> None:
    provenance = Provenance(
        server="https://api.acme.example:6443",
        context="acme-prod",
        namespace="acme-shop",
        server_version="v1.36.2",
        read_at="2026-01-02T03:04:05Z",
        leader="acme-master-1_0f",
        configured_by="ConfigMap acme-system/scheduler",
    )
    made, _, _ = anonymize_cluster(replace(read_demo_cluster(), provenance=provenance))
    assert made.provenance == Provenance("", server_version="v1.36.2", read_at="2026-01-02T03:04:05Z")


def test_user_chosen_condition_texts_are_removed() -> None:
    """Conditions that determine the requests of a resized pod stay."""
    ready = {"type": "Ready", "status": "False", "reason": "AcmeSecretMissing", "message": "acme"}
    resized = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": [{"name": "c"}]}}
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [ready]}}
    documents = [pod | {"status": {"conditions": [ready, resized]}}, node]
    made, _, _ = anonymize_cluster(kschedctl.Cluster.from_objects([{"apiVersion": "v1", **each} for each in documents]))
    told = [(c.type, c.reason, c.message) for each in (made.pods[0], made.nodes[0]) for c in each.status.conditions]
    assert told == [("Ready", "", ""), ("PodResizePending", "Infeasible", ""), ("Ready", "", "")]
