"""Check that the fix for the cause is among the first three, for recorded pods waiting for volumes or devices."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from kschedctl.cluster import Cluster
from kschedctl.commands.remedies import remedies
from kschedctl.fixes.search import RemedyCriteria

RECORDING = Path(__file__).parents[2] / "recordings" / "pending.json.xz"
UNDOES = {
    "p14-pvc-immediate": ("CreateVolume",),
    "p15-pvc-wffc": ("CreateVolume",),
    "p16-pvc-missing": ("CreateClaim",),
    "p17-pv-zone": ("OtherSelector",),
    "p18-csi-capacity": ("RaiseCapacity",),
    "p19-csi-limit": ("RaiseVolumeLimit",),
    "p20-rwop": ("StopPod",),
    "p26-dra-none-left": ("StopPod",),
    "p27-dra-noclass": ("OtherDeviceClass", "AddNode"),
    "p28-dra-claim-missing": ("CreateResourceClaim", "StopPod"),
    "p33-template-claim-noclass": ("CreateResourceClaimTemplate", "StopPod"),
}
"""The only device of the recording is held by a pod, whatever else is missing."""


@pytest.fixture(scope="module")
def recorded() -> Cluster:
    with lzma.open(RECORDING, "rt", encoding="utf-8") as file:
        return Cluster.from_objects(json.load(file)["objects"])


@pytest.mark.parametrize("name", UNDOES)
def test_fix_of_the_cause_is_among_the_first(name: str, recorded: Cluster) -> None:
    report = remedies(recorded, f"lab/{name}", RemedyCriteria(2, smallest=True))
    assert UNDOES[name] in [each.kinds for each in report.remedies[:3]]
