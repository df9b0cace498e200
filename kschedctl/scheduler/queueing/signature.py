"""Pod signatures: pods that have the same one get the same answers on the same nodes.

Upstream: SignPod of the plugins, staging/src/k8s.io/kube-scheduler/framework/signers.go, and computeBatchablePlugins in
pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from kschedctl.scheduler.framework import Plugin, SignPlugin, offers
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.helper.signing import encode
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SIGNED_POINTS = ("preFilter", "filter", "preScore", "score")


class Signer:
    """Signs the pods of a profile; none of a profile with extenders, or with a plugin that does not sign."""

    def __init__(self, framework: Framework, gates: FeatureGates, *, extenders: bool, view: Fork) -> None:
        plugins: dict[str, Plugin] = {p.name: p for point in SIGNED_POINTS for p in framework.at(point)}
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
