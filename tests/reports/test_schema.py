"""Check that the JSON Schemas in the package describe the printed documents."""

from __future__ import annotations

import jsonschema
import pytest

import kschedctl
from kschedctl.commands.schema import DOCUMENTS, build_schema
from kschedctl.text.version import VERSION

NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}},
    "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
}


def build_pod(cpu: str, **spec: object) -> dict[str, object]:
    containers = [{"name": "c", "image": "web", "resources": {"requests": {"cpu": cpu}}}]
    return {"kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schema_is_valid_in_its_dialect(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(build_schema(DOCUMENTS[name]))


def test_document_names_the_version_of_kschedctl() -> None:
    cluster = kschedctl.Cluster.from_objects([NODE, build_pod("1")])
    assert kschedctl.explain(cluster, "shop/p").to_dict()["toolVersion"] == VERSION


@pytest.mark.parametrize(
    "incoming",
    [
        build_pod("1"),
        build_pod("64"),
        build_pod("1", schedulingGates=[{"name": "g"}]),
        build_pod("1", schedulerName="x"),
        build_pod("1", nodeName="n1"),
    ],
    ids=["schedulable", "too large", "gated", "another scheduler's", "bound"],
)
def test_explanation_follows_its_schema(incoming: dict[str, object]) -> None:
    cluster = kschedctl.Cluster.from_objects([NODE, incoming])
    document = kschedctl.explain(cluster, "shop/p").to_dict()
    jsonschema.validate(document, build_schema(DOCUMENTS["explanation"]))
    assert (document["apiVersion"], document["kind"]) == ("kschedctl.dev/v1", "Explanation")
