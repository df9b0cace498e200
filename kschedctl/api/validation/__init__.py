"""Validation of pods and workloads as kube-apiserver does it, by pure functions that yield FieldErrors.

The rules, their order and their words are those of pkg/apis/core/validation/validation.go,
pkg/apis/apps/validation/validation.go and pkg/apis/batch/validation/validation.go (v1.36), limited to fields that
decide where pods go. Where upstream iterates over a map, whose order Go leaves open, keys are sorted.
"""

from __future__ import annotations

from typing import NamedTuple


class ValidationOptions(NamedTuple):
    """The kind of object that is validated, and the relevant feature gates with their defaults of v1.36.

    Upstream: PodValidationOptions, and GetValidationOptionsFromPodSpecAndMeta in pkg/api/pod/util.go (v1.36).
    """

    is_pod: bool = False
    """True for a pod that is created, False for a template."""
    comparison_operators: bool = False
    selector_merge: bool = True
    pod_level_resources: bool = True
    container_restart_rules: bool = True
    user_namespaces_host_network: bool = False
