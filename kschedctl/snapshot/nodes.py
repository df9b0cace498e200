"""The nodes of a snapshot as columns, one row per node in the scheduler's order, and masks of nodes that pods allow.

The order is round robin over the zones, in order of their first node. Upstream:
pkg/scheduler/backend/cache/node_tree.go and component-helpers/node/topology/helpers.go (v1.36).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Row, Rows
from kschedctl.api.node_selector import CompiledNodeSelector, CompiledPreferredTerms, RequiredNodeAffinity
from kschedctl.api.objects import ContainerImage, Node, Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint

ZONE, REGION, HOSTNAME = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def get_region_and_zone(node: Node) -> tuple[str, str]:
    """Return region and zone from the node's labels, preferring the deprecated labels.

    A missing region or zone is an empty string.
    """
    labels = node.metadata.labels
    region = labels.get(BETA_REGION, labels.get(REGION, ""))
    zone = labels.get(BETA_ZONE, labels.get(ZONE, ""))
    return region, zone


def interleave_zones(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes in the scheduler's order: the first node of each zone, then the second of each zone, and so on.

    The given nodes must be in the order in which they joined the cluster.
    """
    zones: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        zones.setdefault(get_region_and_zone(node), []).append(node)
    in_turn = chain.from_iterable(zip_longest(*zones.values()))  # None in place of the nodes that a zone lacks
    return [node for node in in_turn if node is not None]


MAX_AFFINITY_MASKS = 1024
"""The number of masks of required node affinity that are cached."""
T = TypeVar("T")
V = TypeVar("V", bound=np.generic)


class Domains:
    """A partition of the nodes into `size` domains. `codes` (N,) are the domains of the nodes, -1 for none."""

    def __init__(self, codes: Ints, size: int) -> None:
        self.codes, self.size = codes, size

    @cached_property
    def present(self) -> Bools:
        """A mask (N,) of the nodes that are in a domain."""
        return self.codes >= 0

    @cached_property
    def complete(self) -> bool:
        """Return whether every node is in a domain."""
        return bool(self.present.all())

    @cached_property
    def occupied(self) -> int:
        """Number of domains that have at least one node."""
        return int(np.count_nonzero(self.count_rows(slice(None))))

    @cached_property
    def separates_nodes(self) -> bool:
        """Return whether no two nodes share a domain."""
        return self._is_identity or bool((self.count_rows(self.present.nonzero()[0]) <= 1).all())

    def count_rows(self, rows: Rows | slice) -> Rows:
        """Return how many of the rows are in each domain. All rows must be in domains."""
        return np.bincount(self._index[rows], minlength=self.size)

    def sum_nodes(self, by_node: Rows) -> Rows:
        """Return the sum of the values of each domain's nodes. Nodes in no domain are ignored."""
        counted = np.flatnonzero((by_node != 0) & self.present)
        return np.bincount(self._index[counted], by_node[counted], self.size).astype(np.int64)

    def map_to_nodes(self, values: npt.NDArray[V]) -> npt.NDArray[V]:
        """Return the value of each node's domain.

        `values` has one value per domain and a last one for nodes in no domain.
        """
        if self._is_identity:
            return values[: len(self.codes)]
        return values.take(self._index, axis=0)  # the index -1 of nodes in no domain takes the last value

    @cached_property
    def _index(self) -> Rows:
        """The codes as integers with which numpy indexes fastest."""
        return self.codes.astype(np.intp)

    @cached_property
    def _is_identity(self) -> bool:
        """Return whether each node is a separate domain, numbered in row order."""
        return len(self.codes) == self.size and bool((self.codes == np.arange(self.size)).all())


class LabelColumn(Domains):
    """One label of all nodes. `codes` (N,) index `values`, -1 for nodes without the label."""

    def __init__(self, codes: Ints, values: tuple[str, ...]) -> None:
        super().__init__(codes, len(values))
        self.values = values


class ImageState(NamedTuple):
    """An image on some nodes."""

    rows: Ints
    """Rows of the nodes in the order in which they joined."""
    sizes: Rows
    """Size in bytes on each of these nodes."""

    @property
    def size(self) -> int:
        """The size that the first node reports."""
        return int(self.sizes[0])


class NodeColumns(ABC):
    """Columns of N nodes. Shapes are (N,) unless said otherwise."""

    def __init__(self) -> None:
        self._groups: dict[frozenset[str], tuple[Ints, Ints]] = {}
        self._affinity_masks: dict[RequiredNodeAffinity, Bools] = {}

    def __len__(self) -> int:
        return len(self.objects)

    @cached_property
    @abstractmethod
    def objects(self) -> Sequence[Node]:
        """The nodes."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node.metadata.name for node in self.objects)

    @cached_property
    def index(self) -> dict[str, Row]:
        """The row of each node, by name."""
        return {name: Row(row) for row, name in enumerate(self.names)}

    def get_node(self, name: str) -> Node:
        """Return the node with this name."""
        return self.objects[self.index[name]]

    @cached_property
    def rows(self) -> Rows:
        """All rows in order."""
        return np.arange(len(self))

    @cached_property
    @abstractmethod
    def unschedulable(self) -> Bools:
        """Return whether each node is cordoned."""

    @cached_property
    @abstractmethod
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        """The distinct lists of taints, and the index of each node's list."""

    @cached_property
    @abstractmethod
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The distinct lists of declared features, and the index of each node's list."""

    @abstractmethod
    def find_image_states(self, names: Collection[str]) -> list[ImageState | None]:
        """Return the nodes that have each of the images, or None for an image on no node."""

    @abstractmethod
    def label(self, key: str) -> LabelColumn:
        """Return the column of one label key, which has each node's value of the label."""

    def evaluate_per_node(
        self,
        function: Callable[[Mapping[str, str], str], T],
        keys: frozenset[str],
        names: frozenset[str] = frozenset(),
        dtype: npt.DTypeLike = np.bool_,
    ) -> npt.NDArray[np.generic]:
        """Return `function(labels, name)` for every node, computed only once for nodes that it cannot distinguish.

        The function must read only the labels in `keys`, and may use a node's name only if it is in `names`.
        """
        first_rows, group = self._group_by_labels(keys)

        # Evaluate the first node of each group under a name that differs from all `names`, because it is longer.
        any_other_name = "".join(names) + "?"
        group_answers = [function(self.objects[row].metadata.labels, any_other_name) for row in first_rows.tolist()]
        answers = np.array(group_answers, dtype)[group]

        # Evaluate the named nodes, and a node without a name, on their own.
        for name in (*names, ""):
            if name in self.index:
                row = self.index[name]
                answers[row] = function(self.objects[row].metadata.labels, name)
        return answers

    def weigh_preferred_terms(self, terms: CompiledPreferredTerms) -> npt.NDArray[np.int64]:
        """Return the total weight of the preferred terms that match each node, shape (N,)."""
        return self.evaluate_per_node(terms.score, terms.keys, terms.names, np.int64).astype(np.int64)

    def match_required_affinity(self, required: RequiredNodeAffinity) -> Bools:
        """Return a read-only mask (N,) of the nodes that match a pod's nodeSelector and required terms.

        Invalid terms match no nodes. Up to MAX_AFFINITY_MASKS masks are cached.
        """
        mask = self._affinity_masks.get(required)
        if mask is None:
            mask = self.evaluate_per_node(required.allows, required.keys, required.names).astype(np.bool_)
            mask.setflags(write=False)
            if len(self._affinity_masks) < MAX_AFFINITY_MASKS:
                self._affinity_masks[required] = mask
        return mask

    def _group_by_labels(self, keys: frozenset[str]) -> tuple[Ints, Ints]:
        """Group the nodes by the values of these labels. Return each group's first row, and the group of each node.

        Results are cached.
        """
        if keys not in self._groups:
            group = np.zeros(len(self), np.int64)
            for key in sorted(keys):
                column = self.label(key)
                # Code each pair of a group and a value (0 for none), and number the pairs that occur.
                pairs = group * (len(column.values) + 1) + column.codes + 1
                _, group = np.unique(pairs, return_inverse=True)
            _, first_rows, inverse = np.unique(group, return_index=True, return_inverse=True)
            self._groups[keys] = (first_rows.astype(np.int32), inverse.astype(np.int32))
        return self._groups[keys]


class ListedImages:
    """L images that nodes list, in the order in which the nodes joined the cluster.

    `rows` are the rows of the nodes, and `images` has the list of images of each node. Nodes that list the same image
    share its object, so names are read once for each distinct object.
    """

    def __init__(self, rows: Sequence[int], images: Sequence[Sequence[ContainerImage]]) -> None:
        listed = list(chain.from_iterable(images))
        ids = list(map(id, listed))
        distinct = dict(zip(ids, listed, strict=True))
        number_by_id = {image_id: number for number, image_id in enumerate(distinct)}
        numbers = np.fromiter(map(number_by_id.__getitem__, ids), np.int32, len(ids))

        self._rows = np.repeat(np.array(rows, np.int32), list(map(len, images)))  # (L,)
        self._sizes = np.array([image.size_bytes for image in distinct.values()], np.int64)[numbers]  # (L,)
        # The places of the i-th distinct image among the L listed ones are `order[starts[i] : starts[i + 1]]`.
        self._order = np.argsort(numbers, kind="stable")
        self._starts = np.searchsorted(numbers[self._order], np.arange(len(distinct) + 1))
        self._numbers_by_name: dict[str, list[int]] = {}
        for number, image in enumerate(distinct.values()):
            for name in image.names:
                self._numbers_by_name.setdefault(name, []).append(number)

    def find_image_state(self, name: str) -> ImageState | None:
        """Return the nodes that have the image with this name, or None if no node has it.

        If a node lists the image several times, the first size is used.
        """
        numbers = self._numbers_by_name.get(name)
        if numbers is None:
            return None
        places_by_image = [self._order[self._starts[number] : self._starts[number + 1]] for number in numbers]
        places = np.sort(np.concatenate(places_by_image))
        rows, sizes = self._rows[places], self._sizes[places]
        is_first_of_node = np.diff(rows, prepend=-1) != 0
        return ImageState(rows[is_first_of_node], sizes[is_first_of_node])


class AllNodes(NodeColumns):
    """The nodes of a cluster. A column is built when it is first used."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        super().__init__()
        self.objects: tuple[Node, ...] = tuple(nodes)
        self._labels: dict[str, LabelColumn] = {}
        self._images: dict[str, ImageState | None] = {}

    @cached_property
    def unschedulable(self) -> Bools:
        """Return whether each node is cordoned."""
        return np.array([node.spec.unschedulable for node in self.objects], np.bool_)

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        """The distinct lists of taints, and the index of each node's list."""
        return _encode_distinct(node.spec.taints for node in self.objects)

    @cached_property
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The distinct lists of declared features, and the index of each node's list."""
        return _encode_distinct(node.status.declared_features for node in self.objects)

    def find_image_states(self, names: Collection[str]) -> list[ImageState | None]:
        """Return the state of each image, or None for an image that no node has. Results are cached."""
        for name in names:
            if name not in self._images:
                self._images[name] = self._listed_images.find_image_state(name)
        return [self._images[name] for name in names]

    @cached_property
    def _listed_images(self) -> ListedImages:
        """The images that the nodes list."""
        # Nodes are assumed to have joined the cluster in the order of their names.
        rows_in_joining_order = sorted(range(len(self)), key=self.names.__getitem__)
        return ListedImages(rows_in_joining_order, [self.objects[row].status.images for row in rows_in_joining_order])

    def label(self, key: str) -> LabelColumn:
        """Return the column of one label key. The values are numbered in the order of the first nodes that have them.

        Columns are cached.
        """
        if key not in self._labels:
            code_by_value: dict[str | None, int] = {None: -1}  # for nodes without the label; values count from 0
            values = (node.metadata.labels.get(key) for node in self.objects)
            codes = [code_by_value.setdefault(value, len(code_by_value) - 1) for value in values]
            distinct = tuple(value for value in code_by_value if value is not None)
            self._labels[key] = LabelColumn(np.array(codes, np.int32), distinct)
        return self._labels[key]


def _encode_distinct(values: Iterable[tuple[T, ...]]) -> tuple[list[tuple[T, ...]], Ints]:
    """Return the distinct values in the order of their first occurrence, and each value's index among them."""
    code_by_value: dict[tuple[T, ...], int] = {}
    codes = [code_by_value.setdefault(value, len(code_by_value)) for value in values]
    return list(code_by_value), np.array(codes, np.int32)


def match_node_selector(nodes: NodeColumns, selector: CompiledNodeSelector) -> Bools:
    """Return a mask (N,) of the nodes that a node selector matches.

    Raises NodeSelectorError if the selector is invalid.
    """
    return nodes.evaluate_per_node(selector.match, selector.keys, selector.names).astype(np.bool_)


def find_untolerated_taints(
    nodes: NodeColumns, tolerations: Iterable[Toleration], comparison_operators: bool = False
) -> tuple[list[Taint | None], Ints]:
    """Return the first untolerated taint of each taint set, and the index of each node's set.

    Only NoSchedule and NoExecute taints are considered. If a taint set is tolerated, its entry is None.
    `comparison_operators` says whether tolerations can have the operators Gt and Lt.
    """
    taint_sets, set_of_node = nodes.taint_sets
    all_tolerations = tuple(tolerations)
    untolerated = [
        find_untolerated_taint(taints, all_tolerations, HARD_EFFECTS, comparison_operators) for taints in taint_sets
    ]
    return untolerated, set_of_node


def match_tolerations(
    nodes: NodeColumns, tolerations: Iterable[Toleration], *, comparison_operators: bool = False
) -> Bools:
    """Return a mask (N,) of the nodes whose NoSchedule and NoExecute taints are all tolerated."""
    untolerated, set_of_node = find_untolerated_taints(nodes, tolerations, comparison_operators)
    is_tolerated = np.array([taint is None for taint in untolerated], np.bool_)
    return is_tolerated[set_of_node]
