"""Check quotas against the tests of upstream's resourcequota plugin, by their names (v1.36)."""

from __future__ import annotations

import json

import pytest
from upstream_objects import CPU, MEMORY, NONE, Json, build_pod, build_resources, is_admitted, request

from kschedctl.admission import resource_quota


def build_quota(name: str, hard: Json, used: Json, *scopes: str) -> Json:
    meta = {"name": name, "namespace": "test"}
    status = {"hard": hard, "used": used}
    return {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": meta, "spec": {"scopes": scopes}, "status": status}


HARD, USED = {CPU: "3", MEMORY: "100Gi", "pods": "5"}, {CPU: "1", MEMORY: "50Gi", "pods": "3"}
SMALL = build_resources({CPU: "100m", MEMORY: "2Gi"}, NONE)
AFTER = {CPU: "1100m", MEMORY: "52Gi", "pods": "4"}


@pytest.mark.parametrize(
    ("quotas", "obj", "after"),
    [
        ([build_quota("q", HARD, USED)], build_pod(1, SMALL), {"q": AFTER}),
        ([build_quota("q", HARD, USED)], build_pod(1, build_resources({CPU: "3", MEMORY: "2Gi"}, NONE)), None),
        (
            [build_quota("q", {**HARD, "limits.memory": "200Gi"}, {**USED, "limits.memory": "100Gi"})],
            build_pod(1, build_resources({CPU: "100m", MEMORY: "2Gi"}, {CPU: "200m"})),
            None,
        ),
        (
            [build_quota("terminating", HARD, USED, "Terminating"), build_quota("not", HARD, USED, "NotTerminating")],
            build_pod(1, SMALL, activeDeadlineSeconds=30),
            {"terminating": AFTER, "not": USED},
        ),
        (
            [build_quota("terminating", HARD, USED, "Terminating"), build_quota("not", HARD, USED, "NotTerminating")],
            build_pod(1, SMALL),
            {"terminating": USED, "not": AFTER},
        ),
        (
            [
                build_quota("best", {"pods": "5"}, {"pods": "3"}, "BestEffort"),
                build_quota("not", {"pods": "5"}, {"pods": "3"}, "NotBestEffort"),
            ],
            build_pod(1, build_resources(NONE, NONE)),
            {"best": {"pods": "4"}, "not": {"pods": "3"}},
        ),
        ([build_quota("q", {"pods": "5"}, {"pods": "3"}, "BestEffort")], build_pod(1, SMALL), {"q": {"pods": "3"}}),
        (
            [build_quota("q", {"services": "3", "pods": "4"}, {"services": "4", "pods": "1"})],
            build_pod(1, SMALL),
            {"q": {"services": "4", "pods": "2"}},
        ),
    ],
    ids=[
        "TestAdmitBelowQuotaLimit",
        "TestAdmitExceedQuotaLimit",
        "TestAdmitEnforceQuotaConstraints",
        "TestAdmitBelowTerminatingQuotaLimit, with a deadline",
        "TestAdmitBelowTerminatingQuotaLimit, without",
        "TestAdmitBelowBestEffortQuotaLimit",
        "TestAdmitBestEffortQuotaLimitIgnoresBurstable",
        "TestAdmitWhenUnrelatedResourceExceedsQuota",
    ],
)
def test_resource_quota(quotas: list[Json], obj: Json, after: dict[str, Json] | None) -> None:
    asked = request(json.loads(json.dumps(obj)), *quotas)
    assert is_admitted(asked, resource_quota.check_quotas) == (after is not None)
    if after is not None:
        assert {found.metadata.name: found.status.used for found in resource_quota.charge_quotas(asked, 1)} == after
