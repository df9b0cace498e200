"""How much the numbers of runs differ that only ties tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.reports.simulation import Spread
from kschedctl.studies.variation import spread


def over_runs(numbers: Sequence[Mapping[str, int]]) -> dict[str, Spread]:
    """The least and the most of every number over the runs; nothing of a single one.

    >>> over_runs([{"moved": 1}, {"moved": 3}])
    {'moved': Spread(least=1, most=3)}
    """
    if len(numbers) < 2:
        return {}
    names = dict.fromkeys(name for run in numbers for name in run)
    return {name: spread(run.get(name, 0) for run in numbers) for name in names}
