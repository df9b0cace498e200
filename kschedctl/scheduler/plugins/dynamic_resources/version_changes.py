"""What versions changed in allocating devices."""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.plugins.dynamic_resources import (
    allocator,
    claims,
    constraints,
    devices,
    evaluation,
    hints,
    noted_changes,
    pools,
    pre_filter,
    requests,
    step_limit,
)
from kschedctl.scheduler.plugins.helper import device_features

VERSION_CHANGES: tuple[ByVersion[object], ...] = (
    claims.NOT_OWNER,
    pre_filter.HAS_ALTERNATIVES,
    device_features.NEWER_ALLOCATOR,
    device_features.CHECKS_ADMIN_ACCESS,
    device_features.TAINT_RULES_GATE,
    device_features.LISTS_IN_CEL,
    devices.SELECTS_BY_CEL,
    devices.COUNTERS_ALONE,
    devices.NAMES_DEVICE,
    devices.HINT_AT_MISSING,
    allocator.NONE_IS_ALL,
    allocator.NOT_ALL_TO_HAVE,
    allocator.ALL_OF_CLASS,
    allocator.ADMIN_TWICE,
    allocator.SECOND_OF_ALL,
    allocator.LATER_ALTERNATIVE,
    allocator.CONSUMERS,
    allocator.EACH_SHARE,
    allocator.AT_INVALID_POOL,
    requests.AT_MAX,
    constraints.DIFFERS,
    pools.INCOMPLETE,
    pools.NEWER_SLICES,
    pools.CHECKS_NAMES,
    pools.COUNTERS_OF,
    pools.COUNTS_SHARES,
    evaluation.TIMED_OUT,
    step_limit.SEQUENCES,
    hints.HEARS_OF_ALLOCATABLE,
    hints.HEARS_OF_SLICES,
    hints.SLICES_NEED_CLAIMS,
    *noted_changes.CHANGES,
)
