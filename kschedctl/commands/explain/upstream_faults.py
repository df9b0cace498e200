"""Find bugs of kube-scheduler that affect an answer, and how the answer would differ without them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.framework import UpstreamFault, has_upstream_fault
from kschedctl.scheduler.scheduler import Framework
from kschedctl.text.counts import counted


def find_upstream_faults(cycle: Cycle, framework: Framework) -> tuple[str, ...]:
    """Describe each kube-scheduler bug that affects this pod."""
    return tuple(_iter_faults(cycle, framework))


def _iter_faults(cycle: Cycle, framework: Framework) -> Iterator[str]:
    """Yield a description of each kube-scheduler bug that affects this cycle."""
    for plugin in framework.plugins.values():
        fault = plugin.upstream_fault(cycle) if has_upstream_fault(plugin) else None
        if fault is None:
            continue
        if fault.without is None:
            yield fault.text
        elif difference := _describe_difference(cycle, _run_without_fault(fault, cycle, framework)):
            yield f"{fault.text}; {difference}"


def _run_without_fault(fault: UpstreamFault, cycle: Cycle, framework: Framework) -> Cycle:
    """Run the cycle again with a corrected version of the plugin."""
    assert fault.without is not None
    return run_cycle(framework.without_extenders().with_plugin(fault.without), cycle.info, cycle.view)


def _describe_difference(cycle: Cycle, corrected: Cycle) -> str:
    """Describe how the outcome differs without the bug, or return an empty string if it does not."""
    if cycle.error != corrected.error:
        return f"otherwise the answer would be: {corrected.error or 'no error'}"
    if not np.array_equal(cycle.feasible, corrected.feasible):
        nodes = len(cycle.view.nodes)
        return f"otherwise {len(corrected.feasible)} of {counted(nodes, 'node')} would fit, not {len(cycle.feasible)}"
    if not np.array_equal(cycle.filter.passing, corrected.filter.passing) or _count_reasons(cycle) != _count_reasons(
        corrected
    ):
        return "otherwise other reasons would stand against the nodes"
    if not np.array_equal(cycle.scores.best, corrected.scores.best):
        names = [cycle.view.nodes.names[row] for row in corrected.scores.best.tolist()]
        return f"otherwise the best would be {', '.join(names[:3])}" + (", …" if len(names) > 3 else "")
    return "" if np.array_equal(cycle.scores.total, corrected.scores.total) else "otherwise the scores would be others"


def _count_reasons(cycle: Cycle) -> dict[str, int]:
    """Count the rejected nodes by reported reason."""
    return dict(cycle.filter.count_reasons(cycle.considered))
