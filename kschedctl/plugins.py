"""The public API for scheduler plugins of other packages. `kschedctl help plugins` shows three examples.

A plugin is a class that derives from DeclaredPlugin and has the methods of one or more extension points; the protocols
here (FilterPlugin, ScorePlugin, PermitPlugin …) describe their arguments and results. Its package registers it under
the entry-point group `kschedctl.plugins`, and a profile of the KubeSchedulerConfiguration enables it by its name. Nodes
are rows: a plugin answers for all of them at once, with arrays.

>>> class Nothing(DeclaredPlugin):
...     name = "Nothing"
...
...     def filter(self, info, view, state, delta):
...         return iter(())
>>> offers(Nothing(), FilterPlugin), offers(Nothing(), ScorePlugin)
(True, False)
"""

from __future__ import annotations

from kschedctl.api.arrays import Bools, Rows, Scores
from kschedctl.api.objects import Struct as Args
from kschedctl.scheduler.event_handling import EnqueueExtensions
from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    PRE_SCORE_SKIP,
    SUCCESS,
    Changes,
    Code,
    FilterPlugin,
    Peers,
    PermitPlugin,
    PluginError,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    PreScoreResult,
    Reads,
    Rejection,
    Reservation,
    ReservePlugin,
    ScorePlugin,
    Status,
    offers,
)
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import ActionType, ChangedObject, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE, normalize_by_max
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork as View
from kschedctl.snapshot.pod_info import PodInfo

__all__ = [
    "MAX_NODE_SCORE",
    "PRE_FILTER_SKIP",
    "PRE_SCORE_SKIP",
    "SUCCESS",
    "ActionType",
    "Args",
    "Bools",
    "ChangedObject",
    "Changes",
    "ClusterEventWithHint",
    "Code",
    "DeclaredPlugin",
    "Delta",
    "Dependency",
    "Effect",
    "EnqueueExtensions",
    "FeatureGates",
    "FilterPlugin",
    "Peers",
    "PermitPlugin",
    "PluginError",
    "PodInfo",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreScoreResult",
    "Reads",
    "Rejection",
    "Reservation",
    "ReservePlugin",
    "Rows",
    "ScorePlugin",
    "Scores",
    "Status",
    "View",
    "normalize_by_max",
    "offers",
]
