"""What the containers of a pod have been through, as a text of its own: restarts, and what they wait or ended for.

Pods of one template would seldom be alike in it, and scheduling does not read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import json_decoder
from kschedctl.api.objects import ContainerState, ContainerStatus, PodStatus

Statuses = tuple[ContainerStatus, ...]
_AS_ALL = ContainerState()
NOT_HELD = "not held"
"""The text where nobody knows, as in snapshots of earlier versions."""
CONTAINER_STATES = (
    *("PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"),
    *("ErrImagePull", "CreateContainerError", "InvalidImageName", "OOMKilled", "Error", "Completed"),
    *("DeadlineExceeded", "Evicted", "ContainerCannotRun", "StartError"),
)
"""The reasons for which containers wait or have ended that everybody has, as the descheduler knows them."""


class ContainersTold(NamedTuple):
    """The statuses of those containers that have restarted, wait or have ended, with nothing else in them."""

    containers: Statuses = ()
    init_containers: Statuses = ()
    ephemeral_containers: Statuses = ()

    @classmethod
    def of(cls, status: PodStatus) -> ContainersTold:
        return cls(*map(_told, _statuses(status)))

    @classmethod
    def read(cls, text: str) -> ContainersTold:
        """From what ``text`` wrote. Raises msgspec.DecodeError."""
        return json_decoder(cls).decode(text.encode()) if text not in ("", NOT_HELD) else cls()

    def text(self) -> str:
        """JSON; "" for a pod of which no container has anything to tell."""
        return _encode(self).decode() if any(self) else ""

    def chosen(self, init_containers: bool = False, ephemeral_containers: bool = False) -> Iterator[ContainerStatus]:
        """Those of the containers, and of the others if they are asked for."""
        yield from self.containers
        yield from self.init_containers if init_containers else ()
        yield from self.ephemeral_containers if ephemeral_containers else ()


def without_states(status: PodStatus) -> PodStatus:
    """The status less what ContainersTold has of it."""
    containers, init_containers, ephemeral = _statuses(status)
    if not ephemeral and all(map(_is_silent, (*containers, *init_containers))):
        return status
    return replace(
        status,
        container_statuses=tuple(map(_silent, containers)),
        init_container_statuses=tuple(map(_silent, init_containers)),
        ephemeral_container_statuses=(),
    )


def with_states(status: PodStatus, text: str) -> PodStatus:
    """The status of a template with what is a pod's own."""
    told = ContainersTold.read(text)
    return replace(
        status,
        container_statuses=_put(status.container_statuses, told.containers),
        init_container_statuses=_put(status.init_container_statuses, told.init_containers),
        ephemeral_container_statuses=told.ephemeral_containers,
    )


def _statuses(status: PodStatus) -> tuple[Statuses, Statuses, Statuses]:
    return status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses


def _is_silent(status: ContainerStatus) -> bool:
    return not status.restart_count and status.state == _AS_ALL


def _silent(status: ContainerStatus) -> ContainerStatus:
    return status if _is_silent(status) else replace(status, restart_count=0, state=_AS_ALL)


def _told(statuses: Statuses) -> Statuses:
    return tuple([ContainerStatus(s.name, s.restart_count, s.state) for s in statuses if not _is_silent(s)])


def _put(statuses: Statuses, told: Statuses) -> Statuses:
    by_name = {status.name: status for status in told}
    return tuple(
        replace(s, restart_count=own.restart_count, state=own.state) if (own := by_name.get(s.name)) else s
        for s in statuses
    )


_encode = msgspec.json.Encoder().encode
