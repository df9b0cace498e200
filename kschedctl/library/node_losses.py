"""``drain`` and ``failures``: nodes that go, and how many more nodes would make up for them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.reports.drain import Drain
from kschedctl.reports.failures import Failures
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, SearchOptions
from kschedctl.studies import drain as draining
from kschedctl.studies import failures as failing
from kschedctl.studies.basics.edits import find_nodes
from kschedctl.studies.basics.parallel import ALONE, UNSEEN, Progress, Workers
from kschedctl.studies.one_more_node import with_more_nodes


def drain(
    cluster: Cluster,
    nodes: Sequence[str] = (),
    *,
    selector: str = "",
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> Drain:
    """Where the pods of these nodes would go, and what blocks the drain; ``selector``: nodes with these labels.

    ``seed`` decides ties, ``runs`` tries as many orders of pods; with ``sampling`` the scheduler looks at as many nodes
    as it really would. ``call_extender``: as for explain. ``remedy`` of the report: a scenario for ``whatif`` with more
    nodes after which no pod is left without one, replayed. Raises UsageError for unknown nodes, ConfigurationError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> drain(kschedctl.Cluster.from_objects([node]), ["n1"]).safe
    True
    """
    chosen = find_nodes(cluster, list(nodes), selector)
    options = SearchOptions(seed=seed, sampling=sampling, call_extender=call_extender)
    report = draining.drain(cluster, chosen, runs=runs, workers=workers, progress=progress, **options)
    if not report.unplaced or report.interrupted:
        return report
    step: JsonObject = {"drain": {"nodes": chosen}}
    return replace(report, remedy=with_more_nodes(cluster, step, chosen, report.unplaced, options, gone=False))


def failures(
    cluster: Cluster,
    unit: str = "zone",
    *,
    pairs: bool = False,
    seed: int = 0,
    runs: int = 1,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> Failures:
    """What would no longer fit if any one ``unit`` (node, zone or pool) were lost, or with ``pairs`` any two at once.

    The other arguments, and ``remedy`` for the worst loss, as for ``drain``. Raises UsageError, ConfigurationError.

    >>> zones = [{"topology.kubernetes.io/zone": zone} for zone in ("a", "b")]
    >>> nodes = [{"kind": "Node", "metadata": {"name": f"n{i}", "labels": zone}} for i, zone in enumerate(zones)]
    >>> str(failures(Cluster.from_objects(nodes), "zone"))
    'N-1 safe per zone: yes (2 losses tried, 0 with consequences)'
    """
    options = SearchOptions(seed=seed, sampling=sampling, call_extender=call_extender)
    report = failing.failures(cluster, unit, pairs=pairs, runs=runs, workers=workers, progress=progress, **options)
    return replace(report, remedy=_remedy(report, cluster, options))


def _remedy(report: Failures, cluster: Cluster, options: SearchOptions) -> JsonObject | None:
    """The worst loss with more nodes like those that are left of the same pools, if that is enough."""
    worst = report.failures[0] if report.failures else None
    if worst is None or not worst.unplaced or report.interrupted:
        return None
    lost = {report.unit: worst.name} if report.unit in ("zone", "pool") else {"nodes": list(worst.nodes)}
    return with_more_nodes(cluster, {"fail": lost}, worst.nodes, worst.reasons, options, gone=True)
