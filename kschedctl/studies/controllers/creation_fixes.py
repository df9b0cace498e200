"""What lets pods be created that quotas refuse, replayed: quotas that hold more, containers that say more."""

from __future__ import annotations

import copy
import dataclasses
import json
import shlex
from collections.abc import Iterator, Mapping

from kschedctl.admission import resource_quota
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError, Writable
from kschedctl.api.copying import replace
from kschedctl.api.objects import ResourceQuota, ResourceQuotaStatus
from kschedctl.reports.not_created import CreationFix

LITTLE = {"cpu": "1m", "memory": "1Mi"}
"""An amount for who has to say some."""


def fixes(request: AdmissionRequest, missing: int) -> Iterator[CreationFix]:
    """For a pod that passes all but the quotas, of which so many are missing."""
    said = resource_quota.not_said(request)
    asked = dataclasses.replace(request, obj=_saying(request, said)) if said else request
    if said and _passes(asked, 1):
        yield CreationFix(f"set {'; '.join(said)}")
    raised = resource_quota.raised(asked, missing)
    if raised and _passes(
        dataclasses.replace(asked, quotas=[_holding(quota, raised) for quota in asked.quotas]), missing
    ):
        raises = (f"ResourceQuota {name} to {_listed(hard)}" for name, hard in raised.items())
        before = f"set {'; '.join(said)}, and " if said else ""
        yield CreationFix(f"{before}raise {' and '.join(raises)}", tuple(_commands(request.namespace, raised)))


def _passes(request: AdmissionRequest, number: int) -> bool:
    try:
        resource_quota.check(request)
    except NotAdmittedError:
        return False
    return resource_quota.room(request, number) == number


def _holding(quota: ResourceQuota, raised: Mapping[str, Mapping[str, str]]) -> ResourceQuota:
    """The quota once it was raised, and its controller has seen that."""
    hard = {**quota.status.hard, **raised.get(quota.metadata.name, {})}
    return replace(quota, status=ResourceQuotaStatus(hard, quota.status.used))


def _saying(request: AdmissionRequest, said: list[str]) -> Writable:
    """The pod with a little of what its containers do not say."""
    obj: Writable = copy.deepcopy(request.obj)
    for name in (message.partition(" ")[0] for message in said):
        part, _, resource = name.rpartition(".")
        for container in (*obj["spec"].get("containers", ()), *obj["spec"].get("initContainers", ())):
            amounts = container.setdefault("resources", {}).setdefault(part or "requests", {})
            amounts.setdefault(resource, LITTLE[resource])
    return obj


def _listed(hard: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in sorted(hard.items()))


def _commands(namespace: str, raised: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for name, hard in raised.items():
        patch = json.dumps({"spec": {"hard": dict(sorted(hard.items()))}})
        yield shlex.join(("kubectl", "patch", "resourcequota", name, "-n", namespace, "--type=merge", "-p", patch))
