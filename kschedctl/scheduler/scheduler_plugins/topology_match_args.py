"""Arguments of NodeResourceTopologyMatch.

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
    """How NodeResourceTopologyMatch scores nodes."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()


class NumaCacheArgs(PluginArgs, frozen=True):
    """Settings of the OverReserve cache."""

    foreign_pods_detect: str = ALL
    """Which pods of other schedulers exclude a node until its topology includes them."""
    resync_method: str = AUTODETECT
    """Which pods a fingerprint covers."""
    informer_mode: str = DEDICATED
    """Which pods of a node the cache knows."""
    resync_scope: str = ALL


class NodeResourceTopologyMatchArgs(PluginArgs, frozen=True):
    """Arguments of NodeResourceTopologyMatch."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    cache_resync_period_seconds: Int64 = 0
    """Without a period, or with ``discard_reserved_nodes``, the OverReserve cache is off."""
    discard_reserved_nodes: bool = False
    cache: NumaCacheArgs = NumaCacheArgs()
    preemption_mode: str = DISABLED
    """Whether the cache computes what victims free, if their NUMA nodes are published."""

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the errors of the arguments."""
        if self.scoring_strategy.type not in (*STRATEGIES, LEAST_NUMA_NODES):
            yield invalid("scoringStrategy.type", self.scoring_strategy.type, "invalid ScoringStrategyType")
        if self.preemption_mode not in (DISABLED, ENABLED):
            yield invalid("preemptionMode", self.preemption_mode, "invalid PreemptionMode")

    @property
    def uses_cache(self) -> bool:
        """Return whether the OverReserve cache subtracts the requests of pods placed recently."""
        return self.cache_resync_period_seconds > 0 and not self.discard_reserved_nodes
