"""What the scenarios of a study share: a cluster, and a scheduler that is made once in each process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kschedctl.cluster import Cluster
from kschedctl.reports.over_time.searches import SearchStart
from kschedctl.scheduler.extenders.extender import CallExtender
from kschedctl.scheduler.sampling import SampledFrom
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import not_replayed


@dataclass(eq=False)
class Scene:
    """``sampling``: look at as many nodes as the scheduler does. What is made of it stays behind when it travels.

    ``call_extender``: how extenders are asked, where they are.
    """

    cluster: Cluster
    sampling: SampledFrom | None = None
    call_extender: CallExtender | None = None
    made: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}}

    @property
    def scheduler(self) -> Scheduler:
        if "scheduler" not in self.made:
            self.made["scheduler"] = Scheduler(self.cluster, self.call_extender)
        found: Scheduler = self.made["scheduler"]
        return found


def searched(sampling: SampledFrom | None, nodes: int, seed: int) -> dict[str, Any]:
    """The field of a report that tells where the first search for nodes begins, if only a part is looked at."""
    if sampling is None:
        return {}
    return {"search_start": SearchStart(sampling.index(nodes, seed), known=sampling.start is not None)}


def left_out(*schedulers: Scheduler) -> dict[str, Any]:
    """The fields of a report that tell what the configuration runs and no answer replays, and what is not read."""
    found = [(s, f) for s in schedulers for name in s.configuration.profiles if (f := s.framework(name))]
    missing = (line for scheduler, framework in found for line in not_replayed(scheduler, framework))
    ignored = (line for s in schedulers for line in s.ignored(pod.spec for pod in s.cluster.pods.templates))
    return {"not_replayed": tuple(dict.fromkeys(missing)), "ignored": tuple(dict.fromkeys(ignored))}
