"""Check SchedulingGates against upstream's own table (plugins/schedulinggates; v1.36)."""

from __future__ import annotations

from plugin_cases import build_snapshot, find_pod_info, parametrize_cases, show_status

from kschedctl.scheduler.plugins.scheduling_gates import SchedulingGates


@parametrize_cases("schedulinggates", "preenqueue")
def test_pre_enqueue(case):
    view = build_snapshot(case)
    assert show_status(SchedulingGates().pre_enqueue(find_pod_info(case, view), view)) == case["want"]["preenqueue"]
