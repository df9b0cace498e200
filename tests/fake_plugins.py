"""The fake plugins of upstream's tables of whole cycles, and a framework made of any plugins.

Upstream: pkg/scheduler/testing/framework/fake_plugins.go and pkg/scheduler/schedule_one_test.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.kube_version import VERIFIED, KubeVersion
from kschedctl.scheduler.engine.extenders import HTTPExtender
from kschedctl.scheduler.framework import SKIP, Code, PluginError, PreFilterResult, PreScoreResult, Rejection, Status
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

REASON = "Nodes failed the fake plugin"


@dataclass
class FakeFramework:
    """A framework of any plugins.

    ``plugins`` maps extension points to plugins in order. ``weights`` are those of score plugins, 1 by default.
    """

    plugins: Mapping[str, list[Any]]
    weights: Mapping[str, int] = field(default_factory=dict)
    extenders: Sequence[HTTPExtender] = ()
    release: KubeVersion = VERIFIED

    @property
    def profile(self) -> Any:
        weights = {plugin.name: 1 for plugin in self.plugins_at("score")} | dict(self.weights)
        return SimpleNamespace(weights=weights, plugins=self.plugins)

    def plugins_at(self, point: str) -> list[Any]:
        return list(self.plugins.get(point, ()))


@dataclass
class FakeFilter:
    """A plugin that rejects the nodes for which `refuses(pod name, node name, pods on the node)` is true."""

    name: str
    refuses: Callable[[str, str, int], bool]
    reason: str = REASON
    code: Code = Code.UNSCHEDULABLE

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        """Reject the nodes for which ``refuses`` returns true."""
        pods = view.count_by_node(np.ones(len(view.pods.infos), np.bool_))
        pod = info.pod.metadata.name
        mask: Bools = np.array(
            [self.refuses(pod, node, int(pods[row])) for row, node in enumerate(view.nodes.names)], np.bool_
        )
        yield Rejection(mask, self.code, self.reason)


@dataclass
class ReturnCodes:
    """The FakeFilter of the tables, with a code per node and one reason that names the pod."""

    codes: Mapping[str, str]
    name: str = "FakeFilter"

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        for node, code in self.codes.items():
            reason = f"injecting failure for pod {info.pod.metadata.name}"
            yield Rejection(np.array([name == node for name in view.nodes.names], np.bool_), Code(code), reason)


@dataclass
class FakePreFilter:
    """A plugin whose PreFilter returns the status of the table."""

    name: str
    status: Status
    node_names: frozenset[str] | None = None

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        if self.status.code is Code.ERROR:
            raise PluginError(", ".join(self.status.reasons))
        return PreFilterResult(self.status, self.node_names)


@dataclass
class SkippingFilter(FakePreFilter):
    """A plugin whose PreFilter skips, so that Filter must not run."""

    name: str = "FakePreFilterAndFilterPlugin"
    status: Status = SKIP

    def filter(self, info: PodInfo, view: Fork, state: Any, delta: Delta) -> Iterator[Rejection]:
        raise AssertionError("a skipped plugin filters")


@dataclass
class FakeScore:
    """A plugin that scores nodes by their names."""

    name: str
    scores: Callable[[list[str]], list[int]]
    normalized: Callable[[Scores], Scores] = lambda scores: scores

    def score(self, info: PodInfo, view: Fork, state: Any, rows: Rows) -> Scores:
        return np.array(self.scores([view.nodes.names[row] for row in rows]), np.int64)

    def normalize(self, state: Any, scores: Scores) -> Scores:
        return self.normalized(scores)


class FailingScore:
    name = "FalseMap"

    def score(self, info: PodInfo, view: Fork, state: Any, rows: Rows) -> Scores:
        raise PluginError("priority map encounters an error")

    def normalize(self, state: Any, scores: Scores) -> Scores:
        return scores


class SkippingScore:
    """A plugin whose PreScore skips, so that Score must not run."""

    name = "FakePreScoreAndScorePlugin"

    def pre_score(self, info: PodInfo, view: Fork, rows: Rows) -> PreScoreResult:
        return PreScoreResult(skip=True)

    def score(self, info: PodInfo, view: Fork, state: Any, rows: Rows) -> Scores:
        raise AssertionError("a skipped plugin scores")

    def normalize(self, state: Any, scores: Scores) -> Scores:
        return scores


FAKES = {
    plugin.name: plugin
    for plugin in (
        FakeFilter("TrueFilter", lambda pod, node, pods: False),
        FakeFilter("FalseFilter", lambda pod, node, pods: True),
        FakeFilter("MatchFilter", lambda pod, node, pods: pod != node),
        FakeFilter("NoPodsFilter", lambda pod, node, pods: pods > 0),
        SkippingFilter(),
        FakeScore("NumericMap", lambda nodes: [int(node) for node in nodes]),
        FakeScore("ReverseNumericMap", lambda nodes: [int(node) for node in nodes], lambda s: s.max() + s.min() - s),
        FakeScore("TrueMap", lambda nodes: [1 for _ in nodes]),
        FakeScore("EqualPrioritizerPlugin", lambda nodes: [1 for _ in nodes]),
        FakeScore("Node2Prioritizer", lambda nodes: [100 if node == "node2" else 10 for node in nodes]),
        FailingScore(),
        SkippingScore(),
    )
}


def build_fake_plugins(documents: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the case's own fake plugins by name."""
    found: dict[str, Any] = {}
    for document in documents:
        name = document["plugin"]
        if "failedNodeReturnCodeMap" in document:
            found[name] = ReturnCodes(document["failedNodeReturnCodeMap"], name)
        elif document.get("kind") == "prefilter":
            status = Status(Code(document["status"]["code"]), tuple(document["status"]["reasons"]))
            names = document.get("nodeNames")
            found[name] = FakePreFilter(name, status, None if names is None else frozenset(names))
    return found
