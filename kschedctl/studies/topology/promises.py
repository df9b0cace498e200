"""What topology spread constraints promise, against what there is, and what they do once a domain is lost.

Counted as the plugin counts for a pod of the workload, by nodeAffinityPolicy, nodeTaintsPolicy, matchLabelKeys and
minDomains.
Upstream: calPreFilterState and Filter in plugins/podtopologyspread/filtering.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kschedctl.api.arrays import Counts, Rows
from kschedctl.api.labels import SelectorError
from kschedctl.reports.audit.topology import BrokenDomain, SpreadPromise
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD, NAME, SOFT, SpreadConstraint
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts, count
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.topology.domains import MOST_LOSSES
from kschedctl.studies.topology.workloads import Workloads


def promises(scheduler: Scheduler, workloads: Workloads) -> Iterator[tuple[int, SpreadPromise]]:
    """Each constraint that the workloads' pods have themselves, with whose it is; pods alike in it are told once.

    Those of pods that no profile serves, or whose profile does not run the plugin, promise nothing.
    """
    infos = scheduler.view.pods.infos
    for workload, numbers in enumerate(workloads.infos):
        known: set[tuple[str, SpreadConstraint]] = set()
        for info in (infos[number] for number in numbers if infos[number].spec.topology_spread_constraints):
            for action, counted in _counted(scheduler, info, known):
                yield workload, _promise(str(workloads.owners[workload]), action, counted, info)


def _counted(
    scheduler: Scheduler, info: PodInfo, known: set[tuple[str, SpreadConstraint]]
) -> Iterator[tuple[str, DomainCounts]]:
    """The constraints of a pod that are not known yet, each with its action."""
    framework = scheduler.framework(info.spec.scheduler_name)
    plugin = framework.plugins.get(NAME) if framework else None
    if not isinstance(plugin, PodTopologySpread):
        return
    view, settings = scheduler.view, plugin.settings
    for action in (HARD, SOFT):
        try:
            constraints = settings.constraints(info, view, action)
        except SelectorError:
            continue  # such a pod cannot be scheduled at all, and lint tells why
        for constraint in constraints:
            if (action, constraint) not in known:
                known.add((action, constraint))
                yield action, count(constraint, constraints, settings, info, view)


def _promise(workload: str, action: str, counted: DomainCounts, info: PodInfo) -> SpreadPromise:
    constraint, names = counted.constraint, counted.column.values
    there = np.flatnonzero(counted.exists)
    order = there[np.argsort(-counted.counts[there], kind="stable")]
    counts = counted.counts[order]
    found = skew_of(counts, constraint)
    return SpreadPromise(
        workload=workload,
        key=constraint.topology_key,
        when_unsatisfiable=action,
        max_skew=constraint.max_skew,
        min_domains=constraint.min_domains,
        domains=len(counts),
        pods=int(counts.sum()),
        skew=found,
        holds=found <= constraint.max_skew,
        most=names[order[0]] if len(order) else "",
        most_pods=int(counts[0]) if len(order) else 0,
        least=names[order[-1]] if len(order) else "",
        least_pods=int(counts[-1]) if len(order) else 0,
        losses=tuple(_losses(names, order, counts, constraint, hard=action == HARD and constraint.selects(info))),
    )


def skew_of(counts: Counts, constraint: SpreadConstraint) -> int:
    """The most pods of a domain less the fewest, which count as 0 with fewer domains than minDomains."""
    if not len(counts):
        return 0
    return int(counts.max() - (0 if len(counts) < constraint.min_domains else counts.min()))


def _losses(
    names: Sequence[str], order: Rows, counts: Counts, constraint: SpreadConstraint, hard: bool
) -> Iterator[BrokenDomain]:
    """Of domains in ``order``, each with its pods. ``hard``: pods come back only where the constraint lets them."""
    told = len(counts) if len(counts) <= MOST_LOSSES else 1
    for i in np.flatnonzero(counts[:told]).tolist():
        left, lost = np.delete(counts, i), int(counts[i])
        gone = stranded(left, lost, constraint, empty=0) if hard else 0
        down = stranded(left, lost, constraint, empty=1) if hard and not constraint.honor_taints else gone
        yield BrokenDomain(
            domain=names[order[i]],
            lost=lost,
            skew=skew_of(left, constraint),
            stranded=gone,
            stranded_while_down=down,
        )


def stranded(left: Counts, lost: int, constraint: SpreadConstraint, empty: int) -> int:
    """How many of the lost pods no domain that is left may take, of which ``left`` says what they have.

    ``empty``: domains that count and take none. With one, or with fewer domains than minDomains, the fewest pods are 0,
    and no domain gets more than maxSkew; else the emptiest one always takes another.
    """
    if len(left) and not empty and len(left) >= constraint.min_domains:
        return 0
    return max(lost - int(np.maximum(constraint.max_skew - left, 0).sum()), 0)
