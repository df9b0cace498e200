"""What the scenarios of a study share: a cluster, and a scheduler that is made once in each process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kschedctl.cluster import Cluster
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import not_replayed


@dataclass(eq=False)
class Scene:
    """``sampling``: look at as many nodes as the scheduler does. What is made of it stays behind when it travels."""

    cluster: Cluster
    sampling: bool = False
    made: dict[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}}

    @property
    def scheduler(self) -> Scheduler:
        if "scheduler" not in self.made:
            self.made["scheduler"] = Scheduler(self.cluster)
        found: Scheduler = self.made["scheduler"]
        return found


def left_out(scheduler: Scheduler) -> tuple[str, ...]:
    """What the configuration runs and no answer replays."""
    frameworks = filter(None, map(scheduler.framework, scheduler.configuration.profiles))
    return tuple(dict.fromkeys(line for framework in frameworks for line in not_replayed(scheduler, framework)))
