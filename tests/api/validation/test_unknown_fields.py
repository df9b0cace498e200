"""Check that misspelled fields cause warnings and real fields never do."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kschedctl.api.validation.unknown_fields import POD_HOLDERS, get_fields_by_type, iter_unknown_fields
from kschedctl.sources.read import read_paths

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"any": "thing"}, "annotations": {"any/thing": "x"}},
    "spec": {
        "containers": [{"name": "web", "image": "nginx", "env": [{"name": "A", "value": "1"}], "volumeMounts": []}],
        "nodeSelector": {"any": "thing"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"any": "thing"}}}],
        "overhead": {"cpu": "1"},
    },
}


def list_unknown_fields(document: dict[str, Any]) -> list[str]:
    """Return the unknown fields of a document."""
    return [str(field) for field in iter_unknown_fields(document)]


def test_correct_pod() -> None:
    assert list_unknown_fields(POD) == []


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [{}, {"imagee": "nginx"}]}, "spec.containers[1].imagee"),
        ({"tolerations": [{"efect": "NoSchedule"}]}, "spec.tolerations[0].efect"),
        ({"affinity": {"nodeAffinity": {"required": {}}}}, "spec.affinity.nodeAffinity.required"),
        ({"volumes": [{"csi": {"drivr": "d"}}]}, "spec.volumes[0].csi.drivr"),
        ({"nodeselector": {}}, "spec.nodeselector"),
    ],
)
@pytest.mark.parametrize("kind", ["Pod", "Deployment", "CronJob"])
def test_misspelled_fields(kind: str, spec: dict[str, Any], path: str) -> None:
    holders = {
        "Pod": ("", {"spec": spec}),
        "Deployment": ("spec.template.", {"spec": {"template": {"spec": spec}}}),
        "CronJob": (
            "spec.jobTemplate.spec.template.",
            {"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}},
        ),
    }
    prefix, document = holders[kind]
    assert list_unknown_fields({"kind": kind, **document}) == [f'unknown field "{prefix}{path}"']


def test_values_of_the_wrong_type_are_not_unknown_fields() -> None:
    assert list_unknown_fields({"kind": "Pod", "spec": [5, None, {"containers": "many"}]}) == []


def test_every_named_type_has_fields() -> None:
    types = get_fields_by_type()
    assert {inner for fields in types.values() for inner in fields.values()} - {""} <= types.keys()
    assert types.keys() >= POD_HOLDERS


def test_number_of_reported_unknown_fields_is_limited() -> None:
    fields = "".join(f"  x{i}: 1\n" for i in range(100_000))
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{fields}"
    told = read_paths(["-"], stdin=io.BytesIO(text.encode())).warnings
    assert len(told) == 21
    assert told[0].endswith('unknown field "spec.x0"')
    assert told[-1].endswith("99,980 more unknown fields")


@pytest.mark.parametrize(
    ("kind", "spec", "advice"),
    [
        ("Deployment", {"priorityClassName": "high"}, "move it to spec.template.spec"),
        ("CronJob", {"nodeSelector": {}}, "move it to spec.jobTemplate.spec.template.spec"),
        ("Deployment", {"template": {"topologySpreadConstraints": []}}, "move it to spec.template.spec"),
        ("Pod", {"containers": [{"affinity": {}}]}, "move it to spec"),
        ("Pod", {"toleration": []}, 'did you mean "tolerations"?'),
        ("Pod", {"nodeselector": {}}, 'did you mean "nodeSelector"?'),
        (
            "Pod",
            {"topologySpreadConstraints": [{"whenUnsatisfied": "DoNotSchedule"}]},
            'did you mean "whenUnsatisfiable"?',
        ),
        ("PodDisruptionBudget", {"maxUnavaliable": 1}, 'did you mean "maxUnavailable"?'),
        ("Pod", {"qqq": 1}, ""),
        ("Pod", {"volumes": [{"storageos": {"pool": "a"}}]}, ""),
    ],
)
def test_intended_field_is_suggested(kind: str, spec: dict[str, Any], advice: str) -> None:
    assert [field.advice for field in iter_unknown_fields({"kind": kind, "spec": spec})] == [advice]


def test_patch_directives_are_not_unknown_fields() -> None:
    assert list_unknown_fields({"kind": "Pod", "spec": {"containers": [{"name": "a", "$patch": "delete"}]}}) == []


def test_unknown_kinds_are_not_checked() -> None:
    assert (
        list_unknown_fields({"kind": "PodSpec", "any": 1}) == list_unknown_fields({"kind": "Rollout", "any": 1}) == []
    )


def test_long_field_name_is_truncated() -> None:
    (field,) = iter_unknown_fields({"kind": "Pod", "spec": {"x" * 5000: 1}})
    assert str(field) == f'unknown field "spec.{"x" * 200}…"'
