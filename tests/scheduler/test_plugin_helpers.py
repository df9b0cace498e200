"""Check helpers that plugins share against upstream's own tables (plugins/helper; v1.36)."""

from __future__ import annotations

import numpy as np
from plugin_cases import build_snapshot, find_pod_info, parametrize_cases

from kschedctl.scheduler.framework.scores import normalize_by_max
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import build_default_selector, find_pod_services


@parametrize_cases("helper", "defaultnormalizescore")
def test_normalize(case):
    assert case["maxPriority"] == 100
    scores = np.array(case["scores"], np.int64)
    assert normalize_by_max(scores, reverse=case["reverse"]).tolist() == case["want"]["scores"]


@parametrize_cases("helper", "podservices")
def test_pod_services(case):
    view = build_snapshot(case)
    services = find_pod_services(find_pod_info(case, view), view.objects)
    assert [service.metadata.name for service in services] == case["want"]["services"]


@parametrize_cases("helper", "defaultselector")
def test_default_selector(case):
    view = build_snapshot(case)
    assert str(build_default_selector(find_pod_info(case, view), view.objects)) == case["want"]["selector"]
