"""Under which circumstances a pod, or a template, is validated."""

from __future__ import annotations

from typing import NamedTuple


class ValidationOptions(NamedTuple):
    """``is_pod``: a pod that is created, not a template; the others are feature gates, as they are in v1.36.

    Upstream: PodValidationOptions, and GetValidationOptionsFromPodSpecAndMeta in pkg/api/pod/util.go (v1.36).
    """

    is_pod: bool = False
    comparison_operators: bool = False
    selector_merge: bool = True
    pod_level_resources: bool = True
    container_restart_rules: bool = True
    user_namespaces_host_network: bool = False
