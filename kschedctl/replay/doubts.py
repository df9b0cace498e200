"""What the answer of one cycle leans on that no object tells."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.cluster import Gap
from kschedctl.scheduler.engine import unsure_nominations
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.dynamic_resources.step_limit import MAX_STEPS, UNDECIDED
from kschedctl.scheduler.scheduler import Framework

NOT_SEARCHED = "of node {} were not searched to the end ({:,} steps)"


def of_cycle(cycle: Cycle, framework: Framework) -> Iterator[Unknown]:
    """What extenders did not say, which nominations count, and whether devices that were not found could be."""
    yield from cycle.consultation.unknown
    yield from unsure_nominations.in_cycle(cycle, framework.unasked())
    verdict = cycle.filter.verdicts.get(DynamicResources.name)
    for rejection in verdict.rejections if verdict else ():
        if rejection.reason.endswith(UNDECIDED):
            node = cycle.view.nodes.names[int(rejection.mask.argmax())]
            yield Unknown(Dependency("Device", Effect.EITHER), Gap(NOT_SEARCHED.format(node, MAX_STEPS)))
            return


def not_replayed(framework: Framework) -> tuple[str, ...]:
    """What the configuration runs and this answer leaves out."""
    unasked = (f"extender {extender.url}" for extender in framework.extenders if extender.call is None)
    return (*(f"plugin {name}" for name in framework.missing), *unasked)
