"""Under pseudonyms the answers are the same, and nothing of the originals is left in the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from golden_cases import SETTINGS, family_lines
from test_snapshot_file import demo_cluster, recorded_cluster, unpacked

import kschedctl
from kschedctl.api import objects as api
from kschedctl.cluster import FIELDS as KINDS
from kschedctl.cluster import Cluster
from kschedctl.sources.anonymize import anonymized
from kschedctl.sources.anonymize_expressions import Expressions
from kschedctl.sources.anonymize_fields import FIELDS, KEPT
from kschedctl.sources.snapshot_file import read_snapshot, write_snapshot

PSEUDONYM = re.compile(r"x\d{4,}")


def pseudonym_of(originals: dict[str, str], cluster: Cluster, made: Cluster, key: str) -> str:
    """The new ``namespace/name`` of a pod: pods keep their places."""
    place = [pod.key for pod in sorted(cluster.pods, key=lambda p: (p.metadata.namespace, p.metadata.name))].index(key)
    return made.pods[place].key


def restored(document: Any, originals: dict[str, str]) -> Any:
    """A document with the originals put back."""
    text = json.dumps(document)
    return json.loads(PSEUDONYM.sub(lambda m: json.dumps(originals[m[0]])[1:-1], text))


@pytest.mark.parametrize("make", [demo_cluster, recorded_cluster])
def test_every_answer_is_the_same_in_every_word(make: Any, tmp_path: Path) -> None:
    cluster = make()
    made, originals = anonymized(cluster)
    write_snapshot(made, str(tmp_path / "s"), anonymized=True)
    again = read_snapshot(str(tmp_path / "s"))
    for pod in cluster.unbound_pods():
        found = kschedctl.explain(again, pseudonym_of(originals, cluster, again, pod.key)).to_dict()
        assert restored(found, originals) == kschedctl.explain(cluster, pod.key).to_dict()


def _originals(cluster: Cluster) -> set[str]:
    """Every name, namespace, image and label value of the cluster."""
    found: set[str] = set()
    for field in KINDS.values():
        for obj in getattr(cluster, field):
            meta = obj.metadata
            found |= {meta.name, meta.namespace, *meta.labels.values()}
            found |= {owner.name for owner in meta.owner_references}
            if isinstance(obj, api.Pod):
                found |= {c.image for c in (*obj.spec.containers, *obj.spec.init_containers)}
                found |= {*obj.spec.node_selector.values()}
            if isinstance(obj, api.Node):
                found |= {name for image in obj.status.images for name in image.names}
    return found - {""}


@pytest.mark.parametrize("make", [demo_cluster, recorded_cluster])
def test_no_original_is_left_in_the_file(make: Any, tmp_path: Path) -> None:
    """Searched for as whole words, keys of labels and words of the API (``true``, ``gpu`` in a resource) aside."""
    cluster = make()
    write_snapshot(anonymized(cluster)[0], str(tmp_path / "s"), anonymized=True)
    everything = unpacked(tmp_path / "s").decode("utf-8", "replace")
    keys = {key for field in KINDS.values() for obj in getattr(cluster, field) for key in obj.metadata.labels}
    words = set(re.findall(r"[\w.-]+", " ".join(keys))) | {w for key in keys for w in re.findall(r"\w+", key)}
    api_words = {"true", "false", "default", "system-node-critical", "system-cluster-critical", "linux", "gpu", "yes"}
    for original in sorted(_originals(cluster) - words - api_words):
        if len(original) > 2:
            assert not re.search(rf"(?<![\w./-]){re.escape(original)}(?![\w/-])", everything), original


@pytest.mark.parametrize(
    "family",
    [
        "nodeaffinity",
        "taints",
        "volumes",
        "dra",
        "topologyspread",
        "podaffinity",
        "imagelocality",
        "preemption",
        "mixed",
        "config",
    ],
)
def test_golden_clusters_answer_alike(family: str) -> None:
    """Clusters that kube-scheduler itself was asked about: the same verdict, scores, reasons and choices."""
    for case in map(json.loads, family_lines(family)[::4]):
        settings = {key: case[source] for key, source in SETTINGS.items() if source in case}
        cluster = kschedctl.Cluster.from_objects(case["objects"], **settings)
        try:
            expected = kschedctl.explain(cluster, case["pod"]).to_dict()
        except kschedctl.KschedctlError:
            continue
        made, originals = anonymized(cluster)
        found = kschedctl.explain(made, pseudonym_of(originals, cluster, made, case["pod"])).to_dict()
        assert comparable(restored(found, originals)) == comparable(expected), case["id"]


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """What plugins answered; not the facts behind it, which tell of ranks where numbers are compared."""
    kept = ("verdict", "message", "nodeOrder", "queue", "preFilter", "filter", "firstFail", "feasible")
    scores = ("score", "normalized", "weighted", "total", "best")
    preemption = document["preemption"] and {k: v for k, v in document["preemption"].items() if k != "candidates"}
    victims = document["preemption"] and {n: c["victims"] for n, c in document["preemption"]["candidates"].items()}
    return {key: document[key] for key in kept + scores} | {"preemption": preemption, "victims": victims}


def test_every_text_of_every_struct_is_decided_upon() -> None:
    """A new field must say whether it holds a name."""
    structs, waiting = set[type](), [*api.KINDS.values()]
    while waiting:
        struct = waiting.pop()
        if struct not in structs:
            structs.add(struct)
            waiting += [inner for field in msgspec.structs.fields(struct) for inner in _inner(field.type)]
    for struct in structs:
        decided = {*FIELDS.get(struct, {}), *KEPT.get(struct, "").split()}
        texts = {field.name for field in msgspec.structs.fields(struct) if _holds_texts(field.type)}
        assert texts <= decided, struct
        assert decided <= {field.name for field in msgspec.structs.fields(struct)}, struct


def _inner(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and issubclass(annotation, api.Struct):
        return [annotation]
    return [struct for inner in getattr(annotation, "__args__", ()) for struct in _inner(inner)]


def _holds_texts(annotation: Any) -> bool:
    arguments = getattr(annotation, "__args__", ())
    return annotation is str or (not _inner(annotation) and any(map(_holds_texts, arguments)))


def test_numbers_that_are_compared_stay_in_order() -> None:
    labels = [{"cores": "8"}, {"cores": "016"}, {"cores": "many"}, {"cores": "32"}]
    nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": found}} for i, found in enumerate(labels)]
    term = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"affinity": affinity}}
    made, _ = anonymized(kschedctl.Cluster.from_objects([*nodes, pod]))
    values = [node.metadata.labels["cores"] for node in made.nodes]
    assert values[:2] == ["0", "01"]
    assert PSEUDONYM.fullmatch(values[2])
    assert values[3] == "2"


def test_a_value_that_no_label_may_have_stays_one() -> None:
    """The scheduler refuses the selector for it; signs of compared numbers stay for the same reason."""
    made, _ = anonymized(kschedctl.Cluster.from_objects([_preferring("-1"), _preferring("no label")]))
    terms = [p.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution for p in made.pods]  # type: ignore[union-attr]
    values = {requirement.values for (term,) in terms for requirement in term.preference.match_expressions}
    assert ("-1",) in values
    assert any(PSEUDONYM.fullmatch(value[:-1]) and value.endswith("?") for (value,) in values)


def _preferring(value: str) -> dict[str, Any]:
    expression = {"key": "k", "operator": "Gt" if value == "-1" else "In", "values": [value]}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"kind": "Pod", "metadata": {"name": f"p{len(value)}"}, "spec": {"affinity": affinity}}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.driver == "gpu.example.com"', 'device.driver == "D"'),
        ("device.attributes['gpu.example.com'].model == 'A100'", "device.attributes['D'].model == 'M'"),
        ('device.attributes["gpu.example.com"].model in ["A100", "B"]', 'device.attributes["D"].model in ["M", "B"]'),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))', None),
        (
            'device.attributes["gpu.example.com"].name.startsWith("A100")',
            'device.attributes["D"].name.startsWith("A100")',
        ),
    ],
)
def test_expressions(expression: str, expected: str | None) -> None:
    names = {"gpu.example.com": "D", "A100": "M"}
    computing = "startsWith" in expression
    expressions = Expressions(
        frozenset({"gpu.example.com"}), frozenset(), frozenset() if computing else frozenset({"A100"})
    )
    wanted = expected or expression.replace("gpu.example.com", "D")
    assert expressions.expression(expression, names.__getitem__) == wanted


def test_an_image_without_a_tag_is_still_the_latest() -> None:
    node = {"kind": "Node", "metadata": {"name": "n"}, "status": {"images": [{"names": ["web:latest", "r:5000/web"]}]}}
    containers = [
        {"name": "a", "image": "web"},
        {"name": "b", "image": "r:5000/web"},
        {"name": "c", "image": "web@sha256:1"},
    ]
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    made, _ = anonymized(kschedctl.Cluster.from_objects([node, pod]))
    held, (bare, port, digest) = made.nodes[0].status.images[0].names, made.pods[0].spec.containers
    assert held[0] == f"{bare.image}:latest"
    assert held[1] == port.image
    assert ":" not in port.image
    assert re.fullmatch(r"x\d+:x\d+", digest.image)
