"""The arguments of NodeResourceTopologyMatch.

Upstream: apis/config/v1/types.go and defaults.go of kubernetes-sigs/scheduler-plugins.
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import invalid
from kschedctl.scheduler.framework.strict_decoding import Int64
from kschedctl.scheduler.plugins.helper.scoring_strategy import ResourceSpec
from kschedctl.scheduler.scheduler_plugins.numa_scores import STRATEGIES

LEAST_NUMA_NODES = "LeastNUMANodes"
ALL, NONE, ONLY_EXCLUSIVE = "All", "None", "OnlyExclusiveResources"
DISABLED, ENABLED = "Disabled", "Enabled"
AUTODETECT, DEDICATED = "Autodetect", "Dedicated"


class NumaScoringStrategy(PluginArgs, frozen=True):
    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()


class NumaCacheArgs(PluginArgs, frozen=True):
    """``foreign_pods_detect``: of which pods of other schedulers a node is left alone until it published them;
    ``resync_method``: which pods a fingerprint is about; ``informer_mode``: which of a node's pods are known."""

    foreign_pods_detect: str = ALL
    resync_method: str = AUTODETECT
    informer_mode: str = DEDICATED
    resync_scope: str = ALL


class NodeResourceTopologyMatchArgs(PluginArgs, frozen=True):
    """How nodes are scored, and what is kept of what exporters published: nothing, as by default, or with a period of
    resync that is not 0 and no ``discard_reserved_nodes`` a cache of its own. ``preemption_mode``: whether such a cache
    tells what the victims of preemption free, where it is published in which NUMA nodes their containers are."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    cache_resync_period_seconds: Int64 = 0
    discard_reserved_nodes: bool = False
    cache: NumaCacheArgs = NumaCacheArgs()
    preemption_mode: str = DISABLED

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        if self.scoring_strategy.type not in (*STRATEGIES, LEAST_NUMA_NODES):
            yield invalid("scoringStrategy.type", self.scoring_strategy.type, "invalid ScoringStrategyType")
        if self.preemption_mode not in (DISABLED, ENABLED):
            yield invalid("preemptionMode", self.preemption_mode, "invalid PreemptionMode")

    @property
    def over_reserves(self) -> bool:
        """Whether it has a cache from which it takes what pods take that were placed just now."""
        return self.cache_resync_period_seconds > 0 and not self.discard_reserved_nodes
