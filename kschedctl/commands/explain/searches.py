"""How nodes were searched for a pod, as a part of what is said of it."""

from __future__ import annotations

from kschedctl.reports.searches import SearchedNodes, SearchStart
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.engine.sampling import SampledFrom


def searched_nodes(cycle: Cycle, sampled: SampledFrom | None) -> SearchedNodes | None:
    """The search, if there was one: none where all nodes were looked at, or the pod's nominated node alone."""
    if sampled is None or cycle.search is None:
        return None
    return SearchedNodes(
        SearchStart(cycle.search.start, known=sampled.start is not None),
        nodes=int(selected_by_name(cycle.pre_filter, cycle.view).sum()),
        examined=int(cycle.search.examined.sum()),
        found=len(cycle.search.feasible),
        next=cycle.search.next,
    )
