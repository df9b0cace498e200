"""Restart counts and states of a pod's containers, stored apart from the pod template as one string per pod.

Pods of one template rarely agree in them, and scheduling does not read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.objects import ContainerState, ContainerStatus, PodStatus

Statuses = tuple[ContainerStatus, ...]
_NO_STATE = ContainerState()
NOT_RECORDED = "not held"
"""The string for a pod whose states are unknown because its snapshot is from an older version."""
CONTAINER_STATES = (
    *("PodInitializing", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff", "CreateContainerConfigError"),
    *("ErrImagePull", "CreateContainerError", "InvalidImageName", "OOMKilled", "Error", "Completed"),
    *("DeadlineExceeded", "Evicted", "ContainerCannotRun", "StartError"),
)
"""The standard reasons for which containers wait or have terminated, as in the descheduler."""


class NotableContainers(NamedTuple):
    """The names, restart counts and states of a pod's notable containers.

    A container is notable if it has restarted, is waiting or has terminated.
    """

    containers: Statuses = ()
    init_containers: Statuses = ()
    ephemeral_containers: Statuses = ()

    @classmethod
    def from_status(cls, status: PodStatus) -> NotableContainers:
        """Select the notable containers of a pod's status."""
        return cls(*map(_select_notable_statuses, _get_statuses(status)))

    @classmethod
    def from_text(cls, text: str) -> NotableContainers:
        """Parse the output of ``to_text``. Raises msgspec.DecodeError."""
        return get_json_decoder(cls).decode(text.encode()) if text not in ("", NOT_RECORDED) else cls()

    def to_text(self) -> str:
        """Return the statuses as JSON, or "" if there are none."""
        return _encode(self).decode() if any(self) else ""

    def iter_statuses(
        self, init_containers: bool = False, ephemeral_containers: bool = False
    ) -> Iterator[ContainerStatus]:
        """Yield the statuses of the containers, and of init and ephemeral containers if these arguments are true."""
        yield from self.containers
        if init_containers:
            yield from self.init_containers
        if ephemeral_containers:
            yield from self.ephemeral_containers


def without_container_states(status: PodStatus) -> PodStatus:
    """Return the pod status without restart counts, container states and ephemeral containers."""
    containers, init_containers, ephemeral = _get_statuses(status)
    if not ephemeral and all(map(_is_unremarkable, (*containers, *init_containers))):
        return status
    return replace(
        status,
        container_statuses=tuple(map(_strip_state, containers)),
        init_container_statuses=tuple(map(_strip_state, init_containers)),
        ephemeral_container_statuses=(),
    )


def with_container_states(status: PodStatus, states_text: str) -> PodStatus:
    """Return a template's pod status with the notable container states of one pod.

    ``states_text`` is the pod's text form of NotableContainers.
    """
    notable = NotableContainers.from_text(states_text)
    return replace(
        status,
        container_statuses=_apply_notable_states(status.container_statuses, notable.containers),
        init_container_statuses=_apply_notable_states(status.init_container_statuses, notable.init_containers),
        ephemeral_container_statuses=notable.ephemeral_containers,
    )


def _get_statuses(status: PodStatus) -> tuple[Statuses, Statuses, Statuses]:
    """Return the statuses of containers, init containers and ephemeral containers."""
    return status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses


def _is_unremarkable(status: ContainerStatus) -> bool:
    """Return whether the container has never restarted and has no state."""
    return not status.restart_count and status.state == _NO_STATE


def _strip_state(status: ContainerStatus) -> ContainerStatus:
    """Return the status without restart count and state."""
    return status if _is_unremarkable(status) else replace(status, restart_count=0, state=_NO_STATE)


def _select_notable_statuses(statuses: Statuses) -> Statuses:
    """Return the statuses of containers that restarted or have a state, reduced to name, restart count and state."""
    return tuple(
        [
            ContainerStatus(status.name, status.restart_count, status.state)
            for status in statuses
            if not _is_unremarkable(status)
        ]
    )


def _apply_notable_states(statuses: Statuses, notable_statuses: Statuses) -> Statuses:
    """Return the statuses, each with the restart count and state of the notable status of the same name, if any."""
    notable_by_name = {status.name: status for status in notable_statuses}

    def complete(status: ContainerStatus) -> ContainerStatus:
        """Return the status with the restart count and state of the notable status of its name, if any."""
        notable = notable_by_name.get(status.name)
        if notable is None:
            return status
        return replace(status, restart_count=notable.restart_count, state=notable.state)

    return tuple([complete(status) for status in statuses])


_encode = msgspec.json.Encoder().encode
