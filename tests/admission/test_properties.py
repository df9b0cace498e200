"""Check properties of every manifest that a real kube-apiserver was asked to admit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_cases import Json, iter_family_lines

import kschedctl
from kschedctl.api.component_flags import OPTIONAL_PLUGINS
from kschedctl.commands.simulate import simulate

SHARES = 4
BEFORE_COUNTING = ("pod rejected", "PriorityClass", "error looking up service account")
"""Denials that a simulation makes while it reads bare pods, or only if the cluster has service accounts."""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "640", "memory": "640Gi", "pods": "2000", "ephemeral-storage": "640Gi"}},
}


def read_pod_cases(share: int) -> list[Json]:
    """Return the cases about pods."""
    found = [json.loads(line) for line in iter_family_lines("autoscaling/admission")[share::SHARES]]
    return [case for case in found if "pod" in case["input"]]


def admit_manifest(case: Json, manifest: Any) -> Json:
    cluster = kschedctl.Cluster.from_objects(case["input"]["objects"])
    plugins = OPTIONAL_PLUGINS if case["stage"] == "opt" else ()
    return kschedctl.admit(cluster, manifest, namespace=case["input"]["namespace"], plugins=plugins).to_dict()


@pytest.mark.parametrize("share", range(SHARES))
def test_admitting_a_stored_pod_changes_nothing(share: int) -> None:
    asked = 0
    for case in read_pod_cases(share):
        once = admit_manifest(case, {"apiVersion": "v1", "kind": "Pod", **case["input"]["pod"]})
        if not once["allowed"]:
            continue
        stored = once["object"]
        again = admit_manifest(
            case, {"apiVersion": "v1", "kind": "Pod", "metadata": stored["metadata"], "spec": stored["spec"]}
        )
        assert again["allowed"], case["id"]
        assert (again["object"], again["changed"]) == (stored, []), case["id"]
        asked += 1
    assert asked >= 12


@pytest.mark.parametrize("share", range(SHARES))
def test_denied_pods_are_not_counted(share: int) -> None:
    """A pod that a simulation does not create leaves the quotas unchanged, so the next denial reports equal usage."""
    asked = 0
    for case in read_pod_cases(share):
        pod, given = case["input"]["pod"], case["input"]
        quotas = [each for each in given["objects"] if each["kind"] == "ResourceQuota"]
        if any(words in (case["answer"]["message"] or "") for words in BEFORE_COUNTING):
            continue
        if case["stage"] != "base" or case["answer"]["code"] != 403 or not quotas or case["nondeterminism"]:
            continue
        metadata = {**pod.get("metadata", {}), "namespace": given["namespace"]}
        two = [
            {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**metadata, "name": name}} for name in ("a", "b")
        ]
        cluster = kschedctl.Cluster.from_objects([NODE, *given["objects"]])
        words = [each.failures[0].message for each in simulate(cluster, two).not_created]
        assert len(words) == 2, case["id"]
        assert words[0].replace('"a"', '"b"') == words[1], case["id"]
        asked += 1
    assert asked >= 5
