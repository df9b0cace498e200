"""Check SchedulingGates against upstream's own table (plugins/schedulinggates; v1.36)."""

from __future__ import annotations

from plugin_cases import cases, pod_info, shown, snapshot

from kschedctl.scheduler.plugins.scheduling_gates import SchedulingGates


@cases("schedulinggates", "preenqueue")
def test_pre_enqueue(case):
    view = snapshot(case)
    assert shown(SchedulingGates().pre_enqueue(pod_info(case, view), view)) == case["want"]["preenqueue"]
