"""The pods of a snapshot as columns. Pods that are equal in all that scheduling reads share one PodInfo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import cast, overload

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Position, Rows
from kschedctl.api.columns import TextColumn, convert_column_to_microseconds
from kschedctl.api.gangs import GangKey
from kschedctl.api.labels import Selector
from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable
from kschedctl.snapshot.pod_info import HostPort, PodInfo
from kschedctl.snapshot.pod_infos import PodInfos, intern_pods

FEW_INFOS = 64
GroupKey = tuple[str, str]
"""Namespace and name of a PodGroup."""
AnyGroupKey = GroupKey | GangKey
"""A PodGroup of Kubernetes, or a gang of another project."""


def get_group_key(pod: Pod) -> GroupKey | None:
    """Return namespace and name of the PodGroup to which the pod belongs, or None."""
    group = pod.spec.scheduling_group
    return None if group is None else (pod.metadata.namespace, group.pod_group_name or "")


class Pods(Sequence[Pod]):
    """The pods at some rows of a table, in which a row may occur several times.

    `rows` (P,) are the places of the pods in the table.
    """

    def __init__(self, table: PodTable, rows: Rows) -> None:
        self.table, self.rows = table, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, position: int) -> Pod: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Pod, ...]: ...
    def __getitem__(self, position: int | slice) -> Pod | tuple[Pod, ...]:
        if isinstance(position, slice):
            return tuple(self[i] for i in range(*position.indices(len(self))))
        return self.table[int(self.rows[position])]

    def get_key(self, position: int) -> str:
        """Return `namespace/name` of the pod at a position, without building the pod."""
        return self.table.get_key(int(self.rows[position]))


class PodColumns:
    """Columns of P pods with T distinct PodInfos among them.

    `info` (P,) is the number of each pod's info among the `distinct` ones.
    """

    def __init__(self, objects: Pods, info: Ints, distinct: PodInfos) -> None:
        self.objects, self.info, self.distinct = objects, info, distinct

    @classmethod
    def from_table(
        cls, pods: PodTable, stored: Callable[[Pod], Pod], options: Options, recreated: Callable[[Pod], Pod]
    ) -> PodColumns:
        """Build the columns of a table's pods.

        `stored` converts a pod to what the API server stores, and `recreated` to what its controller creates anew.
        """
        info, infos = intern_pods(pods, stored, options, recreated)
        return cls(Pods(pods, np.arange(len(pods))), info, PodInfos(infos))

    def __len__(self) -> int:
        return len(self.objects)

    def get_info(self, position: int) -> PodInfo:
        """Return the PodInfo of the pod at a position."""
        info: PodInfo = self.infos[self.info[position]]
        return info

    def get_info_number(self, position: int) -> int:
        """Return the number of the pod's PodInfo among the distinct ones."""
        return int(self.info[position])

    def get_recreated_info(self, number: int) -> PodInfo:
        """Return the PodInfo of a distinct pod as its controller recreates it. Equal recreated pods share a PodInfo."""
        return self.distinct.infos.get_recreated(number)

    def get_priority(self, position: int) -> int:
        """Return the priority of the pod at a position, without building its PodInfo."""
        return int(self.priority[self.info[position]])

    def get_priorities(self, positions: Rows | Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the priorities of the pods at these positions."""
        return self.priority[self.info[positions]]

    @property
    def pod_priorities(self) -> npt.NDArray[np.int64]:
        """The priority of each pod (P,)."""
        return self.priority[self.info]

    def find_node_rows(self, index: Mapping[str, int]) -> Ints:
        """Return the row of the node to which each pod was bound, or -1 for a pod without a node.

        `index` maps the names of nodes to their rows.
        """
        column = self.objects.table.node
        row_by_code = np.array([index.get(name, -1) for name in column.values], np.int32)
        return row_by_code[column.codes][self.objects.rows]

    def with_clones(self, position: int, count: int) -> PodColumns:
        """Return the columns with `count` copies of the pod at a position appended. The copies have no node."""
        info = np.append(self.info, np.full(count, self.info[position], np.int32))
        rows = np.append(self.objects.rows, np.full(count, self.objects.rows[position]))
        return PodColumns(Pods(self.objects.table, rows), info, self.distinct)

    @cached_property
    def index(self) -> dict[str, Position]:
        """The position of each pod, by `namespace/name`."""
        keys = self.objects.table.keys()
        positions = {keys[row]: position for position, row in enumerate(self.objects.rows.tolist())}
        return cast(dict[str, Position], positions)

    def get_pod(self, key: str) -> Pod:
        """Return the pod `namespace/name`."""
        return self.objects[self.index[key]]

    def find_position(self, key: str) -> Position | None:
        """Return the position of the pod `namespace/name`, or None if there is no such pod.

        Unlike `index`, this does not index all pods.
        """
        namespace, _, name = key.partition("/")
        row = self.objects.table.find_row(namespace, name)
        if row is None:
            return None
        # The pods of the table come first, in the order of their rows, and clones after them.
        return Position(int(np.searchsorted(self.objects.rows[: len(self.objects.table)], row)))

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """The start time of each pod in microseconds since 1970, or NO_TIME. Raises InputError for an invalid time."""
        return self._to_microseconds(self.objects.table.started, "status.startTime")

    @cached_property
    def created(self) -> npt.NDArray[np.int64]:
        """The time at which each pod was created, in microseconds since 1970. Raises InputError for an invalid time."""
        return self._to_microseconds(self.objects.table.created, "metadata.creationTimestamp")

    def _to_microseconds(self, column: TextColumn, field: str) -> npt.NDArray[np.int64]:
        """Convert a column of timestamps to microseconds since 1970. Raises InputError for an invalid timestamp."""
        table = self.objects.table
        return convert_column_to_microseconds(column, lambda row: f"Pod {table[row].key}, {field}")[self.objects.rows]

    @cached_property
    def nominated_positions(self) -> list[int]:
        """The positions of the pods with status.nominatedNodeName."""
        nominated_rows = self.objects.table.find_rows(lambda template: bool(template.status.nominated_node_name))
        if not len(nominated_rows):
            return []
        return np.flatnonzero(np.isin(self.objects.rows, nominated_rows)).tolist()

    def find_positions(self, selected: Bools) -> npt.NDArray[np.int64]:
        """Return the positions, in any order, of the pods whose infos are set in the mask `selected`."""
        numbers = np.flatnonzero(selected)
        if len(numbers) > FEW_INFOS:
            return np.flatnonzero(selected[self.info])

        # For few infos, an index is faster than to look at all pods.
        order, starts = self._positions_by_info
        no_positions = order[:0]  # so that there is something to concatenate
        positions = (order[starts[number] : starts[number + 1]] for number in numbers.tolist())
        return np.concatenate([no_positions, *positions])

    @cached_property
    def positions_by_group(self) -> Mapping[GroupKey, npt.NDArray[np.int64]]:
        """The positions of the pods that name each PodGroup, by group and in ascending order."""
        groups: dict[GroupKey, list[int]] = {}
        for number, template in enumerate(self.distinct.infos.templates):
            if key := get_group_key(template):
                groups.setdefault(key, []).append(number)
        group_of_info = np.full(len(self.infos), -1)
        for group, numbers in enumerate(groups.values()):
            group_of_info[numbers] = group

        # Sort the positions of all grouped pods by group, and split them.
        group_of_pod = group_of_info[self.info]
        grouped = np.flatnonzero(group_of_pod >= 0)
        order = grouped[np.argsort(group_of_pod[grouped], kind="stable")]
        starts = np.searchsorted(group_of_pod[order], np.arange(len(groups) + 1))
        return {key: order[starts[group] : starts[group + 1]] for group, key in enumerate(groups)}

    @cached_property
    def positions_by_gang(self) -> Mapping[GangKey, npt.NDArray[np.int64]]:
        """The positions of the pods of each gang that an add-on such as Volcano defines, in ascending order."""
        templates_by_gang = self.objects.table.templates_by_gang
        if not templates_by_gang:
            return {}

        # Sort the positions of all pods by template. Those of template t lie between starts[t] and starts[t + 1].
        template_of_pod = self.objects.table.template[self.objects.rows]
        positions_by_template = np.argsort(template_of_pod, kind="stable")
        template_numbers = np.arange(len(self.objects.table.templates) + 1)
        starts = np.searchsorted(template_of_pod[positions_by_template], template_numbers)

        # Join the positions of each gang's templates.
        positions_by_gang = {}
        for key, numbers in templates_by_gang.items():
            parts = [positions_by_template[starts[number] : starts[number + 1]] for number in numbers]
            positions_by_gang[key] = np.sort(np.concatenate(parts))
        return positions_by_gang

    @cached_property
    def _positions_by_info(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Arrays `order` and `starts`: the pods of the i-th info are at `order[starts[i] : starts[i + 1]]`."""
        order = np.argsort(self.info, kind="stable")
        starts = np.searchsorted(self.info[order], np.arange(len(self.infos) + 1))
        return order, starts

    # -- of the distinct infos, (T,) -----------------------------------------------------------------------------

    @property
    def infos(self) -> Sequence[PodInfo]:
        """The distinct PodInfos by number."""
        return self.distinct.infos

    @property
    def priority(self) -> npt.NDArray[np.int64]:
        """The priority of each info."""
        return self.distinct.priorities

    @property
    def terminating(self) -> Bools:
        """A mask over the infos whose pods are being deleted."""
        return self.distinct.terminating

    @property
    def labelled(self) -> Bools:
        """A mask over the infos whose pods have labels."""
        return self.distinct.labelled

    def where(self, predicate: Callable[[PodInfo], bool]) -> Bools:
        """Return a mask over the infos that satisfy the predicate."""
        return self.distinct.where(predicate)

    @property
    def host_ports(self) -> Collection[HostPort]:
        """The distinct host ports that pods take."""
        return self.distinct.host_port_users.keys()

    def mask_with_host_port(self, predicate: Callable[[HostPort], bool]) -> Bools:
        """Return a mask of the infos that use a host port for which the predicate holds."""
        return self.distinct.mask_with_host_port(predicate)

    def match_infos(self, selector: Selector, namespaces: frozenset[str] | None) -> Bools:
        """Return a mask of the infos that match the selector and are in one of the namespaces.

        If `namespaces` is None, all namespaces are included.
        """
        return self.distinct.match_infos(selector, namespaces)
