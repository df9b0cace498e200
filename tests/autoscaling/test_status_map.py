"""Check the Cluster Autoscaler's status ConfigMap as three releases write it, complete and truncated."""

from __future__ import annotations

from pathlib import Path

import pytest

from kschedctl.api.objects import ConfigMap, ObjectMeta
from kschedctl.autoscaling.node_groups.status import AutoscalerStatus, NodeGroupStatus, read_autoscaler_status

TEXTS = {
    path.stem: path.read_text() for path in sorted((Path(__file__).parents[1] / "golden/autoscaling/status").iterdir())
}
GROUPS = {
    "1.29-text": (NodeGroupStatus("g0", 1, 9, 5, 4, "Healthy", "InProgress"),),
    "1.30-yaml": (NodeGroupStatus("g0", 1, 9, 5, 5, "Healthy", "Backoff", "QUOTA_EXCEEDED: no more"),),
    "1.36-yaml": (
        NodeGroupStatus("g0", 0, 8, 2, 1, "Healthy", "InProgress"),
        NodeGroupStatus("g1", 0, 4, 1, 1, "Healthy", "NoActivity"),
    ),
}
"""Expected values, read off the texts by hand."""


def read_status(text: str | None) -> AutoscalerStatus:
    meta = ObjectMeta("cluster-autoscaler-status", "kube-system")
    return read_autoscaler_status(ConfigMap(meta, {} if text is None else {"status": text}))


@pytest.mark.parametrize("form", GROUPS)
def test_all_forms_are_read(form: str) -> None:
    status = read_status(TEXTS[form])
    assert status.groups == GROUPS[form]
    assert status.faults == ()
    assert status.time.startswith("2026-06-01 12:00:00")


@pytest.mark.parametrize("form", GROUPS)
def test_truncated_status_has_no_wrong_sizes(form: str) -> None:
    """At any cut, each group that is still reported has all its sizes. Error messages may be shorter."""
    text = TEXTS[form].rstrip()
    whole = [group._replace(backoff_reason="") for group in GROUPS[form]]
    last = text.rindex("\n  ScaleDown") if form == "1.29-text" else text.rindex("errorCode") if "1.30" in form else None
    for end in range(len(text[:last]) - 1):
        status = read_status(text[:end])
        left = [group._replace(backoff_reason="") for group in status.groups]
        assert left == whole[: len(left)]
        assert status.faults or left == whole, end


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, 'no key "status"'),
        ("a: [", "invalid YAML in line 1, perhaps truncated"),
        ("just words", "not what the Cluster Autoscaler writes"),
        ("time: x", "no node groups"),
        ("time: x\nnodeGroups: {a: 1}", "nodeGroups: expected array"),
        ("time: x\nnodeGroups: [1]", "nodeGroups[0]: Expected `object`, got `int`"),
        ("time: x\nnodeGroups: [{name: 7, health: {maxSize: many}}]", "nodeGroups[0]"),
    ],
)
def test_invalid_status_is_one_clear_line(text: str | None, said: str) -> None:
    (fault,) = read_status(text).faults
    assert said in fault
    assert fault.startswith("ConfigMap kube-system/cluster-autoscaler-status")
    assert "\n" not in fault
