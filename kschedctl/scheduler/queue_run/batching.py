"""Opportunistic batching: of pods alike that fill a node each, the next goes where the one before found second best.

Upstream: pkg/scheduler/framework/runtime/batch.go, whose results grow old after half a second; here time stands still.
SignPod of the plugins, staging/src/k8s.io/kube-scheduler/framework/signers.go, and computeBatchablePlugins in
pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from kschedctl.api.arrays import Row
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework import Plugin, SignPlugin, offers
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.signing import encode
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SIGNED_POINTS = ("preFilter", "filter", "preScore", "score")


class Signer:
    """Signs the pods of a profile: those with one signature get the same answers.

    It signs none of a profile with extenders, or with a plugin that does not sign.
    """

    def __init__(self, framework: Framework, gates: FeatureGates, *, extenders: bool, view: Fork) -> None:
        plugins: dict[str, Plugin] = {p.name: p for point in SIGNED_POINTS for p in framework.plugins_at(point)}
        signing = [plugin for plugin in plugins.values() if offers(plugin, SignPlugin)]
        batching = gates.enabled("OpportunisticBatching")
        known = len(signing) == len(plugins) and not framework.missing
        self._plugins = signing if batching and known and not extenders else None
        self._view = view

    def sign(self, info: PodInfo) -> bytes | None:
        """The signature; None for a pod that cannot be compared with others."""
        if self._plugins is None:
            return None
        whole: dict[str, object] = {"scheduler": info.spec.scheduler_name}
        for plugin in self._plugins:
            fragment = plugin.sign(info, self._view)
            if fragment is None:
                return None
            whole |= fragment
        return encode(whole)


@dataclass
class OpportunisticBatch:
    """What one profile keeps of the pods that it placed: the nodes that are left, best first, for pods of a signature.

    ``last_cycle``, ``last_row``: when a pod was placed last, and where.
    """

    signature: bytes | None = None
    left: deque[Row] | None = None
    last_cycle: int = -1
    last_row: Row | None = None

    def hint(self, signature: bytes | None, cycle: Cycle, number: int) -> Row | None:
        """The node to try first for a pod, in the cycle of this number; ``cycle`` is what its Filter plugins say."""
        if not self.left or number != self.last_cycle + 1 or signature is None or signature != self.signature:
            return None
        if self.last_row is None or not _full(cycle, self.last_row):
            return None
        return self.left.popleft()

    def store(self, signature: bytes | None, number: int, hinted: Row | None, chosen: Row, left: deque[Row]) -> None:
        """A pod was placed on ``chosen``; ``left``: the other nodes that fit, best first."""
        self.last_cycle, self.last_row = number, chosen
        if hinted == chosen:
            return
        self.signature, self.left = (signature, left) if signature is not None and left else (None, None)


def _full(cycle: Cycle, row: Row) -> bool:
    """Whether the node is refused, nominated pods aside."""
    return any(verdict.rejected[row] for verdict in cycle.filter.verdicts.values())
