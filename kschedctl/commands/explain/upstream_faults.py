"""Where one of kube-scheduler's own faults decides an answer: what it is, and what would come out without it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.framework import UpstreamFault, has_upstream_fault
from kschedctl.scheduler.scheduler import Framework
from kschedctl.text.counts import counted


def upstream_faults(cycle: Cycle, framework: Framework) -> tuple[str, ...]:
    """A line for each fault of the profile's plugins that makes a difference to this pod."""
    return tuple(_faults(cycle, framework))


def _faults(cycle: Cycle, framework: Framework) -> Iterator[str]:
    for plugin in framework.plugins.values():
        fault = plugin.upstream_fault(cycle) if has_upstream_fault(plugin) else None
        if fault is None:
            continue
        if fault.without is None:
            yield fault.text
        elif difference := _difference(cycle, _without(fault, cycle, framework)):
            yield f"{fault.text}; {difference}"


def _without(fault: UpstreamFault, cycle: Cycle, framework: Framework) -> Cycle:
    """The cycle as it is with the plugin as it should be."""
    assert fault.without is not None
    return run_cycle(framework.unasked().with_plugin(fault.without), cycle.info, cycle.view)


def _difference(cycle: Cycle, other: Cycle) -> str:
    """What would come out otherwise, empty when all would be the same."""
    if cycle.error != other.error:
        return f"otherwise the answer would be: {other.error or 'no error'}"
    if not np.array_equal(cycle.feasible, other.feasible):
        nodes = len(cycle.view.nodes)
        return f"otherwise {len(other.feasible)} of {counted(nodes, 'node')} would fit, not {len(cycle.feasible)}"
    if not np.array_equal(cycle.filter.passing, other.filter.passing) or _refusals(cycle) != _refusals(other):
        return "otherwise other reasons would stand against the nodes"
    if not np.array_equal(cycle.scores.best, other.scores.best):
        names = [cycle.view.nodes.names[row] for row in other.scores.best.tolist()]
        return f"otherwise the best would be {', '.join(names[:3])}" + (", …" if len(names) > 3 else "")
    return "" if np.array_equal(cycle.scores.total, other.scores.total) else "otherwise the scores would be others"


def _refusals(cycle: Cycle) -> dict[str, int]:
    return dict(cycle.filter.reason_counts(cycle.considered))
