"""Facts behind a plugin's rejection of a node, as data: one struct for each kind of fact.

Amounts are integers in base units: millicores of CPU, bytes, and counts of anything else. Pods and claims are named
`namespace/name`. `describe()` describes a fact in a few exact words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import msgspec


class LabelDemand(NamedTuple):
    """A node label that must have one of some values for the pod to fit."""

    what: str
    """The part of the pod that requires the label."""
    key: str
    values: tuple[str, ...]
    """The accepted values."""
    claim: str = ""
    """The claim, if a volume requires the label."""


class CauseScope(NamedTuple):
    """The nodes to which a cause applies, in words that a description of the cause can use."""

    node: str
    """The node whose fact is described."""
    text: str
    """A parenthesis with the share of the nodes and the node's name, or ""."""
    share: str
    """A parenthesis with only the share of the nodes, or ""."""
    is_example: bool = False
    """True if the node is one of many, rather than the closest to fitting."""
    is_only_node: bool = False
    """True if the cluster has no other node."""
    is_only_eligible_node: bool = False
    """True if the cluster has other nodes, but none of them is eligible."""
    nodes: str = ""
    """The share of the nodes without parenthesis, such as "2 of 9 candidate nodes", or "" for the only node."""
    is_single: bool = False
    """True if the cause applies to a single node."""
    is_partial: bool = False
    """True if the cause applies only to some of the nodes that its share counts, so that the others pass its check."""
    no_node: str = "no node"
    """The nodes as the subject of a negative clause, such as "none of the 9 candidate nodes"."""

    @property
    def has_several_nodes(self) -> bool:
        """True if `nodes` names several nodes to which the cause applies."""
        return bool(self.nodes) and not self.is_single and not self.is_only_node

    def describe_node(self) -> str:
        """Return the node as the subject of a clause.

        >>> CauseScope("w3", "", "").describe_node(), CauseScope("w3", "", "", is_example=True).describe_node()
        ('the closest node, w3,', 'w3, for example,')
        """
        if self.is_only_node:
            return f"the only node, {self.node},"
        if self.is_only_eligible_node:
            return f"the only candidate node, {self.node},"
        return f"{self.node}, for example," if self.is_example else f"the closest node, {self.node},"


class Fact(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag=True, kw_only=True, gc=False
):
    """Base class of all facts.

    There is one for each node and reason. Facts are never part of a reference cycle, so the garbage collector can
    ignore them.
    """

    nominated: bool = False
    """True if the fact counts the pods that are nominated for the node."""

    def describe(self) -> str:
        """Return a short description."""
        raise NotImplementedError

    def get_claim(self) -> str:
        """Return the PersistentVolumeClaim that the fact is about (`namespace/name`), or ""."""
        return ""

    def describe_node(self) -> str:
        """Describe what the node has, for a narrow list of nodes beside the pod's demands.

        By default, this is the whole description.
        """
        return self.describe()

    names_node: ClassVar[bool] = False
    """True if `describe_cause` names the node itself, so that it also suits a cluster with a single node."""
    names_best_node: ClassVar[bool] = False
    """True if `describe_cause` needs the node with the smallest shortage, even if another node is closer to fitting."""

    @property
    def is_same_on_all_nodes(self) -> bool:
        """True if the fact does not depend on the node, so that no node is named as an example."""
        return False

    def describe_cause(self, scope: CauseScope) -> str:
        """Describe the fact as the reason why a pod is not placed, and the nodes to which the reason applies."""
        text = self.describe_with_nominations()
        # Two pairs of parentheses in a row are merged into one
        if text.endswith(")") and scope.text.startswith(" ("):
            return f"{text.removesuffix(')')}; {scope.text.removeprefix(' (')}"
        return f"{text}{scope.text}"

    def list_label_demands(self) -> tuple[LabelDemand, ...]:
        """Return the labels, with their values, that a node must have to meet the requirement.

        By default, there are none.
        """
        return ()

    def describe_with_nominations(self) -> str:
        """Return the description, with a note if nominated pods were counted."""
        return f"{self.describe()}, after reserving room for nominated pods" if self.nominated else self.describe()


class Detail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base class of the items in a fact's lists."""


class Said(Fact, frozen=True):
    """A fact that a plugin of another package describes as text."""

    text: str

    def describe(self) -> str:
        """Return the plugin's own text."""
        return self.text


class Wanted(Detail, frozen=True):
    """A requirement on a label or a field that the node does not meet."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    found: str | None = None
    """The value that the node has; None if it has none."""
    field: bool = False
    """True if the requirement is on a field rather than a label."""
    absent: bool = False
    """True if the cluster has none of the nodes that a requirement on the name names."""

    def describe_need(self) -> str:
        """Describe the requirement as a phrase that follows "needs".

        >>> Wanted("disk", "In", ("ssd",)).describe_need(), Wanted("zone", "In", ("a", "b")).describe_need()
        ('disk=ssd', 'zone=a or b')
        >>> Wanted("pool", "Exists").describe_need(), Wanted("age", "Gt", ("3",)).describe_need()
        ('a label pool', 'age > 3')
        >>> Wanted("zone", "NotIn", ("c",)).describe_need(), Wanted("zone", "NotIn", ("b", "c")).describe_need()
        ('zone!=c', 'zone not in (b, c)')
        >>> Wanted("metadata.name", "In", ("n9",), field=True).describe_need()
        'node n9'
        """
        values = ", ".join(self.values)
        match self.operator:
            case "In" if self.field:  # metadata.name is the only field that a term may name
                return f"node {' or '.join(self.values)}{' (no such node)' if self.absent else ''}"
            case "In":
                return f"{self.key}={' or '.join(self.values)}"
            case "NotIn":
                return f"{self.key}!={values}" if len(self.values) == 1 else f"{self.key} not in ({values})"
            case "Exists":
                return f"a label {self.key}"
            case "DoesNotExist":
                return f"no label {self.key}"
        return f"{self.key} {OPERATOR_SYMBOLS.get(self.operator, self.operator)} {values}"

    def describe_label(self) -> str:
        """Describe the label that the node has instead.

        >>> Wanted("disk", "In", ("ssd",), "hdd").describe_label(), Wanted("disk", "In", ("ssd",)).describe_label()
        ('disk=hdd', 'no label disk')
        """
        return f"no label {self.key}" if self.found is None else f"{self.key}={self.found}"


OPERATOR_SYMBOLS = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<"}
EQUALITY_SIGNS = {"In": "=", "NotIn": "!="}
"""The signs of kubectl's label selectors, which stand for an operator with a single value."""


def describe_unmet(
    alternatives: Sequence[Sequence[Wanted]], others: str = "", node: str = "the node", share: str = ""
) -> str:
    """Describe alternative sets of requirements of which a node meets none, and the labels that the node has instead.

    `others` describes further alternatives. `node` names the node in the text. With `share`, which describes all nodes
    that meet none of the alternatives, the text says that these nodes are ruled out, and the node is only an example.

    >>> describe_unmet([[Wanted("disk", "In", ("ssd",), "hdd"), Wanted("gpu", "In", ("yes",))]])
    'needs disk=ssd and gpu=yes, but the node has disk=hdd and no label gpu'
    >>> describe_unmet([[Wanted("zone", "In", ("a",), "c")], [Wanted("pool", "Exists")]])
    'needs either zone=a or a label pool, but the node has zone=c and no label pool'
    >>> describe_unmet([[Wanted("zone", "In", ("a",), "c")]], node="w3, for example,", share="all 12 nodes")
    'needs zone=a, which rules out all 12 nodes (w3, for example, has zone=c)'
    """
    needs = [" and ".join(requirement.describe_need() for requirement in requirements) for requirements in alternatives]
    if others:
        needs.append(others)
    text = f"needs {_join_alternatives(needs)}"

    unmet = [requirement for requirements in alternatives for requirement in requirements]
    unmet_labels = [requirement for requirement in unmet if not requirement.field]
    # "no label a and b=c" would be ambiguous, so the labels that the node has come first
    unmet_labels.sort(key=lambda requirement: requirement.found is None)
    labels = dict.fromkeys(requirement.describe_label() for requirement in unmet_labels)
    labels_of_node = f"{node} has {' and '.join(labels)}" if labels else ""
    if share:
        return f"{text}, which rules out {share}" + (f" ({labels_of_node})" if labels_of_node else "")
    return f"{text}, but {labels_of_node}" if labels_of_node else text


def _join_alternatives(alternatives: Sequence[str]) -> str:
    """Join alternatives as in "either a or b". A comma separates alternatives that would be ambiguous without it.

    >>> _join_alternatives(["a"]), _join_alternatives(["a", "b"]), _join_alternatives(["a and b", "c"])
    ('a', 'either a or b', 'either a and b, or c')
    """
    if len(alternatives) < 2:
        return "".join(alternatives)
    needs_comma = len(alternatives) > 2 or any(" or " in text or " and " in text for text in alternatives)
    separator = ", or " if needs_comma else " or "
    return f"either {separator.join(alternatives)}"


class TopologyLabelMissing(Fact, frozen=True):
    """The node lacks the label of a topology key and so belongs to no domain."""

    key: str

    def describe(self) -> str:
        """Describe the missing label."""
        return f"the node has no label {self.key}"


def describe_fact(fact: Fact | None) -> str:
    """Return a fact's description, or an empty string for None.

    >>> describe_fact(TopologyLabelMissing("zone", nominated=True)), describe_fact(None)
    ('the node has no label zone, after reserving room for nominated pods', '')
    """
    return "" if fact is None else fact.describe_with_nominations()
