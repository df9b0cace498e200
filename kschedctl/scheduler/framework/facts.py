"""What stands behind a refusal on a node, as data: one struct for each sort of fact.

Amounts are integers in base units: millicores of cpu, bytes, counts of anything else. Pods and claims are named
``namespace/name``. ``words()`` says it to people: a few words, exact, in one unit.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Demand(NamedTuple):
    """One of these values of a node label, which ``what`` of the pod cannot do without; ``claim``: a volume's."""

    what: str
    key: str
    values: tuple[str, ...]
    claim: str = ""


class Fact(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag=True, kw_only=True, gc=False
):
    """Base of all facts. ``nominated``: it counts the pods that are nominated for the node.

    There is one for each node and reason; being no part of a circle, they are nothing for the garbage collector.
    """

    nominated: bool = False

    def words(self) -> str:
        """What is said of it."""
        raise NotImplementedError

    def demands(self) -> tuple[Demand, ...]:
        """What of it no node without such a label can meet."""
        return ()

    def told(self) -> str:
        """The fact's words, and a note where nominated pods were counted."""
        return f"{self.words()}, counting the pods nominated for it" if self.nominated else self.words()


class Detail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of what a fact holds several of."""


class Said(Fact, frozen=True):
    """What a plugin of another package says in its own words."""

    text: str

    def words(self) -> str:
        return self.text


class Wanted(Detail, frozen=True):
    """A requirement on a label, or a ``field``, that the node does not meet. ``found``: its value, None without one."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    found: str | None = None
    field: bool = False

    def words(self) -> str:
        """What is wanted and what is there."""
        values = f" [{', '.join(self.values)}]" if self.values else ""
        text = f"{self.key} {self.operator}{values} wanted"
        return text if self.field else f"{text}, {self.label()} found"

    def label(self) -> str:
        """The value that the node has."""
        return "no such label" if self.found is None else self.found


class TopologyLabelMissing(Fact, frozen=True):
    """The node is in no domain of the topology key."""

    key: str

    def words(self) -> str:
        return f"the node has no label {self.key}"


def words(fact: Fact | None) -> str:
    """What is said of a fact, nothing of none.

    >>> words(TopologyLabelMissing("zone", nominated=True)), words(None)
    ('the node has no label zone, counting the pods nominated for it', '')
    """
    return "" if fact is None else fact.told()
