"""Opportunistic batching: a pod identical to the previous one goes to the node that came second for that pod.

It only applies if the previous pod filled its node. Upstream: pkg/scheduler/framework/runtime/batch.go, whose results
expire after half a second. Here time stands still. SignPod of the plugins,
staging/src/k8s.io/kube-scheduler/framework/signers.go, and computeBatchablePlugins in
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
    """Signs the pods of a profile, so that pods with equal signatures get the same answers.

    If the profile has extenders or a plugin that does not sign, no pod is signed.
    """

    def __init__(self, framework: Framework, gates: FeatureGates, *, extenders: bool, view: Fork) -> None:
        plugins: dict[str, Plugin] = {p.name: p for point in SIGNED_POINTS for p in framework.plugins_at(point)}
        signing = [plugin for plugin in plugins.values() if offers(plugin, SignPlugin)]
        batching = gates.enabled("OpportunisticBatching")
        all_sign = len(signing) == len(plugins) and not framework.missing
        self._plugins = signing if batching and all_sign and not extenders else None
        self._view = view

    def sign(self, info: PodInfo) -> bytes | None:
        """Return the signature, or None for a pod that cannot be compared with others."""
        if self._plugins is None:
            return None
        fragments: dict[str, object] = {"scheduler": info.spec.scheduler_name}
        for plugin in self._plugins:
            fragment = plugin.sign(info, self._view)
            if fragment is None:
                return None
            fragments |= fragment
        return encode(fragments)


@dataclass
class OpportunisticBatch:
    """The remaining nodes of a profile, best first, for pods of one signature."""

    signature: bytes | None = None
    remaining_rows: deque[Row] | None = None
    last_cycle: int = -1
    """Number of the cycle that placed a pod last."""
    last_row: Row | None = None
    """The node on which a pod was placed last."""

    def pop_hint(self, signature: bytes | None, cycle: Cycle, cycle_number: int) -> Row | None:
        """Return the node to try first for a pod in the cycle of this number, or None."""
        if (
            not self.remaining_rows
            or cycle_number != self.last_cycle + 1
            or signature is None
            or signature != self.signature
        ):
            return None
        if self.last_row is None or not _is_full(cycle, self.last_row):
            return None
        return self.remaining_rows.popleft()

    def store(
        self, signature: bytes | None, cycle_number: int, hinted: Row | None, chosen: Row, remaining_rows: deque[Row]
    ) -> None:
        """Record that a pod was placed on `chosen`, with the other feasible nodes, best first."""
        self.last_cycle, self.last_row = cycle_number, chosen
        if hinted == chosen:
            return
        self.signature, self.remaining_rows = (
            (signature, remaining_rows) if signature is not None and remaining_rows else (None, None)
        )


def _is_full(cycle: Cycle, row: Row) -> bool:
    """Return whether a Filter plugin rejects the node without regard to nominated pods."""
    return any(verdict.rejected[row] for verdict in cycle.filter.verdicts.values())
