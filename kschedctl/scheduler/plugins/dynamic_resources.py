"""DynamicResources: devices for the pod's ResourceClaims."""

from __future__ import annotations

from typing import Any

import numpy as np

from kschedctl.scheduler.framework import (
    PRE_FILTER_SKIP,
    SUCCESS,
    PreFilterResult,
    Rows,
    Scores,
    Status,
    normalize_by_max,
)
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Snapshot


class DynamicResources:
    """Upstream: pkg/scheduler/framework/plugins/dynamicresources (v1.36)."""

    name = "DynamicResources"

    def pre_enqueue(self, info: PodInfo, view: Snapshot) -> Status:
        return SUCCESS

    def pre_filter(self, info: PodInfo, view: Snapshot) -> PreFilterResult:
        return PRE_FILTER_SKIP

    def score(self, info: PodInfo, view: Snapshot, state: Any, rows: Rows) -> Scores:
        return np.zeros(len(rows), np.int64)

    def normalize(self, state: Any, scores: Scores) -> Scores:
        return normalize_by_max(scores)
