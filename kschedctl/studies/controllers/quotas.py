"""Pods that LimitRanges and ResourceQuotas keep from being created, counted in the order in which they come.

A quota's status counts, as for the API server: what is in use, and the most there may be. Of several LimitRanges or
quotas that refuse a pod chance decides which one speaks: all that may are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeVar

import msgspec

from kschedctl.admission import limit_ranger, resource_quota
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError
from kschedctl.api.objects import Pod, ResourceQuota
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.reports.not_created import CreationFailure, NotCreated
from kschedctl.studies.controllers.not_created import with_headline
from kschedctl.studies.controllers.rollout_limits import Change

OF_DEADLINE = ("Terminating", "NotTerminating")
"""Scopes that ask for activeDeadlineSeconds, which no scheduler reads of a pod."""
NAMED = ("Pod", "StatefulSet")
"""Whose pods do not get a name that the API server generates."""
REPLAYED = "admission, replayed"

T = TypeVar("T")


def is_counted(quota: ResourceQuota) -> bool:
    """Whether a quota is replayed: it has a status, and its scopes ask only for what scheduling reads of a pod."""
    names = (*quota.spec.scopes, *(term.scope_name for term in quota.spec.scope_selector.match_expressions))
    return bool(quota.status.hard) and not any(name in OF_DEADLINE for name in names)


class CountedPods:
    """What is left of the quotas of each namespace, as pods are created one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._quotas: dict[str, tuple[ResourceQuota, ...]] = {}

    def take(self, workload: Owner, change: Change) -> NotCreated | None:
        """Take out of a change the pods that are not created, all of one template. Nothing may be ``removed``."""
        wanted = change.desired
        number, words = self._room(workload, change.new)
        if not words:
            return None
        change.refused = len(change.new) - number
        del change.new[number:]
        failures = tuple(CreationFailure(each, REPLAYED) for each in words)
        there = wanted - change.refused
        return with_headline(NotCreated(str(workload), "", wanted, there, change.refused, failures))

    def _room(self, workload: Owner, pods: Sequence[Pod]) -> tuple[int, Sequence[str]]:
        """How many of the pods are created, and why no more are, in the API server's words."""
        if not pods:
            return 0, ()
        request = self._request(workload, pods[0])
        if words := list(dict.fromkeys(_words(request))):
            return 0, words
        number = resource_quota.room(request, len(pods))
        self._quotas[request.namespace] = resource_quota.charged(request, number)
        if number == len(pods):
            return number, ()
        return number, list(dict.fromkeys(_words(self._request(workload, pods[number]))))

    def _request(self, workload: Owner, pod: Pod) -> AdmissionRequest:
        """The pod as it comes to validation, its defaults being there."""
        namespace = pod.metadata.namespace
        if namespace not in self._quotas:
            self._quotas[namespace] = tuple(
                filter(is_counted, self._cluster.in_namespace("resource_quotas", namespace))
            )
        return AdmissionRequest(
            self._cluster,
            "Pod",
            msgspec.to_builtins(pod),
            namespace,
            tuple(map(limit_ranger.stored, self._cluster.in_namespace("limit_ranges", namespace))),
            self._quotas[namespace],
            pod.metadata.name if workload.kind in NAMED else f"{workload.name}-*",
        )


def _words(request: AdmissionRequest) -> Iterator[str]:
    """Why the pod is refused, for each LimitRange and each quota that may be looked at first."""
    ranges, quotas = request.limit_ranges, request.quotas
    for request.limit_ranges, request.quotas in product(_each_first(ranges), _each_first(quotas)):
        try:
            limit_ranger.check(request)
            resource_quota.check(request)
            break  # whom one order admits, all do
        except NotAdmittedError as error:
            yield error.message
    request.limit_ranges, request.quotas = ranges, quotas


def _each_first(objects: Sequence[T]) -> list[Sequence[T]]:
    return [(*objects[i:], *objects[:i]) for i in range(len(objects))] or [()]
