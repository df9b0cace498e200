"""Facts behind a plugin's rejection of a node, as data: one struct for each kind of fact.

Amounts are integers in base units: millicores of CPU, bytes, and counts of anything else. Pods and claims are named
`namespace/name`. `words()` describes a fact in a few exact words.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Fact(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag=True, kw_only=True, gc=False
):
    """Base class of all facts.

    There is one for each node and reason. Facts are never part of a reference cycle, so the garbage collector can
    ignore them.
    """

    nominated: bool = False
    """Whether the fact counts the pods that are nominated for the node."""

    def words(self) -> str:
        """Return a short description."""
        raise NotImplementedError

    def demands(self) -> tuple[LabelDemand, ...]:
        """Return the labels, with their values, that a node must have to meet the requirement."""
        return ()

    def words_with_nominations(self) -> str:
        """Return the description, with a note if nominated pods were counted."""
        return f"{self.words()}, after reserving room for nominated pods" if self.nominated else self.words()


class Detail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base class of the items in a fact's lists."""


class Said(Fact, frozen=True):
    """A fact that a plugin of another package describes in its own words."""

    text: str

    def words(self) -> str:
        """Return the plugin's text."""
        return self.text


class Wanted(Detail, frozen=True):
    """A requirement on a label or a field that the node does not meet."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    found: str | None = None
    """The value that the node has; None if it has none."""
    field: bool = False
    """Whether the requirement is on a field rather than a label."""

    def words(self) -> str:
        """Return the requirement and, for a label, what the node has instead.

        >>> Wanted("zone", "In", ("a", "b"), found="c").words(), Wanted("gpu", "Exists").words()
        ('needs zone In [a, b], has c', 'needs gpu Exists, has no such label')
        """
        text = f"needs {self.key} {self.operator}"
        if self.values:
            text += f" [{', '.join(self.values)}]"
        return text if self.field else f"{text}, has {self.actual_text()}"

    def actual_text(self) -> str:
        """Return the node's value as text."""
        return "no such label" if self.found is None else self.found


class TopologyLabelMissing(Fact, frozen=True):
    """The node lacks the label of a topology key and so belongs to no domain."""

    key: str

    def words(self) -> str:
        """Describe the missing label."""
        return f"the node has no label {self.key}"


def describe_fact(fact: Fact | None) -> str:
    """Return a fact's description, or an empty string for None.

    >>> describe_fact(TopologyLabelMissing("zone", nominated=True)), describe_fact(None)
    ('the node has no label zone, after reserving room for nominated pods', '')
    """
    return "" if fact is None else fact.words_with_nominations()
