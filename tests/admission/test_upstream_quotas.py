"""Check quotas against the tests of upstream's resourcequota plugin, by their names (v1.36)."""

from __future__ import annotations

import json

import pytest
from upstream_objects import CPU, MEMORY, NONE, Json, passes, pod, request, sizes

from kschedctl.admission import resource_quota


def quota(name: str, hard: Json, used: Json, *scopes: str) -> Json:
    meta = {"name": name, "namespace": "test"}
    status = {"hard": hard, "used": used}
    return {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": meta, "spec": {"scopes": scopes}, "status": status}


HARD, USED = {CPU: "3", MEMORY: "100Gi", "pods": "5"}, {CPU: "1", MEMORY: "50Gi", "pods": "3"}
SMALL = sizes({CPU: "100m", MEMORY: "2Gi"}, NONE)
AFTER = {CPU: "1100m", MEMORY: "52Gi", "pods": "4"}


@pytest.mark.parametrize(
    ("quotas", "obj", "after"),
    [
        ([quota("q", HARD, USED)], pod(1, SMALL), {"q": AFTER}),
        ([quota("q", HARD, USED)], pod(1, sizes({CPU: "3", MEMORY: "2Gi"}, NONE)), None),
        (
            [quota("q", {**HARD, "limits.memory": "200Gi"}, {**USED, "limits.memory": "100Gi"})],
            pod(1, sizes({CPU: "100m", MEMORY: "2Gi"}, {CPU: "200m"})),
            None,
        ),
        (
            [quota("terminating", HARD, USED, "Terminating"), quota("not", HARD, USED, "NotTerminating")],
            pod(1, SMALL, activeDeadlineSeconds=30),
            {"terminating": AFTER, "not": USED},
        ),
        (
            [quota("terminating", HARD, USED, "Terminating"), quota("not", HARD, USED, "NotTerminating")],
            pod(1, SMALL),
            {"terminating": USED, "not": AFTER},
        ),
        (
            [
                quota("best", {"pods": "5"}, {"pods": "3"}, "BestEffort"),
                quota("not", {"pods": "5"}, {"pods": "3"}, "NotBestEffort"),
            ],
            pod(1, sizes(NONE, NONE)),
            {"best": {"pods": "4"}, "not": {"pods": "3"}},
        ),
        ([quota("q", {"pods": "5"}, {"pods": "3"}, "BestEffort")], pod(1, SMALL), {"q": {"pods": "3"}}),
        (
            [quota("q", {"services": "3", "pods": "4"}, {"services": "4", "pods": "1"})],
            pod(1, SMALL),
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
    assert passes(asked, resource_quota.check_quotas) == (after is not None)
    if after is not None:
        assert {found.metadata.name: found.status.used for found in resource_quota.charge_quotas(asked, 1)} == after
