"""Rounds of the real Karpenter 1.14, answered the same, what chance decides there included: see golden/README.md."""

from __future__ import annotations

import json

import pytest
from golden_cases import Json, family_lines
from scaling_answers import plain, same

import kschedctl

ORDERED = frozenset(("templates", "newNodeClaims", "existingNodes", "pods", "relaxations", "instanceTypes"))
"""Lists whose order is part of the answer."""
SHARES = 3
KINDS = {
    "nodePools": ("karpenter.sh/v1", "NodePool"),
    "nodeOverlays": ("karpenter.sh/v1alpha1", "NodeOverlay"),
    "nodeClaims": ("karpenter.sh/v1", "NodeClaim"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "daemonSets": ("apps/v1", "DaemonSet"),
    "pdbs": ("policy/v1", "PodDisruptionBudget"),
    "persistentVolumes": ("v1", "PersistentVolume"),
    "persistentVolumeClaims": ("v1", "PersistentVolumeClaim"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode"),
    "namespaces": ("v1", "Namespace"),
}
"""What a case calls its objects."""


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", ["provisioning", "disruption"])
def test_a_round_is_answered_as_by_the_real_one(family: str, share: int) -> None:
    ask = kschedctl.provision if family == "provisioning" else kschedctl.disrupt
    cases = [json.loads(line) for line in family_lines(f"autoscaling/{family}")[share::SHARES]]
    assert len(cases) >= 25
    for case in cases:
        given, wanted = case["input"], case["answer"]
        cluster = kschedctl.Cluster.from_objects(objects(given))
        got = ask(cluster, given["instanceTypes"], given.get("options"), now=given["now"]).to_dict()
        parts = {key: (plain(got.get(key), ORDERED, key), plain(wanted[key], ORDERED, key)) for key in wanted}
        different = {key: pair for key, pair in parts.items() if not same(*pair)}
        assert not different, case["id"]


def objects(given: Json) -> list[Json]:
    """The objects of a case with their kinds."""
    return [
        {"apiVersion": version, "kind": kind, **each}
        for key, (version, kind) in KINDS.items()
        for each in given.get(key) or ()
    ]
