"""Apply each reported fix to the documents and try it."""

from __future__ import annotations

from collections.abc import Mapping

from applied import Json, apply

import kschedctl
from kschedctl.cluster import Cluster
from kschedctl.commands.remedies import remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.reports.remedy import Remedy

ASKED = "d/asked"


def find_helping_remedies(documents: list[Json], most: int = 1, gates: Mapping[str, bool] | None = None) -> Remedies:
    """Search for the fixes for the target pod, check that each of them helps, and return the report."""
    report = remedies(Cluster.from_objects(documents, feature_gates=gates), ASKED, RemedyCriteria(most))
    for remedy in report.remedies:
        assert_helps(documents, remedy, gates)
    return report


def assert_helps(documents: list[Json], remedy: Remedy, gates: Mapping[str, bool] | None) -> None:
    """Check that the pod fits exactly the nodes that the remedy opens, once it is applied and all is read afresh."""
    afresh = Cluster.from_objects(apply(remedy, documents), feature_gates=gates)
    answer = kschedctl.explain(afresh, ASKED)
    if remedy.victims:
        assert answer.preemption is not None
        assert (answer.preemption.chosen,) == remedy.opens, remedy.summary
    else:
        assert answer.verdict == "Schedulable", remedy.summary
        assert sorted(answer.feasible) == sorted(remedy.opens), remedy.summary
