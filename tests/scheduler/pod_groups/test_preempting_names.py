"""Check how a pod is identified while its victims are being evicted."""

from __future__ import annotations

import pytest

from kschedctl.api.objects import Pod
from kschedctl.cluster import convert_document
from kschedctl.scheduler.engine.pod_groups.victims import get_preemptor_key


@pytest.mark.parametrize(
    ("group", "workload_aware", "expected"),
    [("g", True, "PodGroup team/g"), ("g", False, "team/p"), (None, True, "team/p")],
    ids=["by its group", "without the gate", "in no group"],
)
def test_by_namespace_and_name(group: str | None, workload_aware: bool, expected: str) -> None:
    spec = {"containers": [{"name": "c"}]} | ({"schedulingGroup": {"podGroupName": group}} if group else {})
    pod = convert_document(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team"}, "spec": spec}
    )
    assert isinstance(pod, Pod)
    assert get_preemptor_key(pod, workload_aware=workload_aware) == expected
