"""Pods that serve users and that other tiers may evict."""

from __future__ import annotations

import numpy as np

from kschedctl.api.ownership import owner_of
from kschedctl.reports.audit.priorities import ExposedWorkload
from kschedctl.scheduler.engine.preemption.budgets import budgets
from kschedctl.studies.priorities.tiers import Tiers


def exposed(tiers: Tiers) -> tuple[ExposedWorkload, ...]:
    """Workloads behind a Service that a tier above, the system's aside, may evict: the most pods first."""
    pods = tiers.pods
    users = ~tiers.system[tiers.of_pod]
    preempting = users & tiers.preempts[pods.info]
    above = np.cumsum([0, *tiers.pods_by_tier(preempting)]).tolist()
    jobs_above = np.cumsum([0, *tiers.pods_by_tier(preempting & tiers.of_jobs[pods.info])]).tolist()
    evicting = [count > 0 for count in tiers.pods_by_tier(preempting)]
    counts = np.bincount(pods.info[tiers.running], minlength=len(pods.infos))
    groups: dict[tuple[str, int], list[int]] = {}
    for number in np.flatnonzero(tiers.user_facing & (counts > 0)).tolist():
        tier = int(tiers.of_info[number])
        if above[tier]:
            groups.setdefault((str(owner_of(pods.infos[number].pod)), tier), []).append(number)
    found = (
        ExposedWorkload(
            workload=workload,
            tier=tiers.names[tier],
            priority=int(tiers.values[tier]),
            pods=int(counts[numbers].sum()),
            services=tiers.services[numbers[0]],
            tiers_above=tuple(tiers.names[k] for k in range(tier) if evicting[k]),
            pods_above=above[tier],
            jobs_above=jobs_above[tier],
            budgets=_budgets(tiers, numbers),
        )
        for (workload, tier), numbers in groups.items()
    )
    return tuple(sorted(found, key=lambda each: (-each.pods, each.workload)))


def _budgets(tiers: Tiers, numbers: list[int]) -> tuple[str, ...]:
    known = budgets(tiers.view)
    found = (name for number in numbers for name in known.of(tiers.first(number)))
    return tuple(dict.fromkeys(found))
