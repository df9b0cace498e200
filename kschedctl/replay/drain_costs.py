"""The pods that a drain with --delete-emptydir-data harms beyond a restart: their data, or their wish to stay."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.objects import Pod


def list_pods_with_local_data(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pods whose emptyDir volumes are deleted with them."""
    return tuple(pod.key for pod in pods if any(volume.empty_dir is not None for volume in pod.spec.volumes))


def list_pods_asking_to_stay(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pods whose annotations ask autoscalers not to evict them."""
    return tuple(
        pod.key
        for pod in pods
        if pod.metadata.annotations.safe_to_evict == "false" or pod.metadata.annotations.do_not_disrupt == "true"
    )
