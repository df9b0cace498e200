"""The fates of preempted pods: they come back elsewhere, preempt others in turn, or wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.reports.document import Document
from kschedctl.text.counts import counted, first_few


def list_victims(victims: Iterable[str], tied: Mapping[str, Sequence[str]]) -> list[str]:
    """List the victims. Where pods with equal priority and start time may go instead, all of them are named.

    >>> list_victims(["d/a"], {}), list_victims(["d/a", "d/b"], {"d/a": ["d/c"], "d/b": ["d/c"]})
    (['d/a'], ['2 of d/a, d/b, d/c'])

    ``tied``: victim -> pods that stay and equal the victim.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for victim in victims:
        equals = tuple(tied.get(victim, ()))
        groups.setdefault(equals or (victim,), []).append(victim)
    return [
        f"{'one' if len(group) == 1 else len(group)} of {first_few([*group, *equals])}"
        if equals != (group[0],)
        else group[0]
        for equals, group in groups.items()
    ]


class EvictionChain(Document, frozen=True):
    """The fates of preempted pods once nothing moves any more. Each pod is counted once."""

    evicted: int
    """Pods that were evicted at least once."""
    moved: int
    """Pods that run on another node than the one from which they were evicted first."""
    returned: int
    """Pods that run on the node from which they were evicted first."""
    pending: int
    lost: int
    """Pods that no controller recreates."""
    rounds: int = 1
    preempting: tuple[str, ...] = ()
    """Evicted pods whose replacements evict others, by their keys."""
    evicted_in_turn: tuple[str, ...] = ()
    """Pods that replacements of evicted pods evict, by their keys."""
    tied: dict[str, tuple[str, ...]] = {}
    """Evicted pod -> pods of its node that are equal in priority and start, one of which may be evicted instead."""
    outrun: tuple[str, ...] = ()
    """Preemptors, by their keys, whose victims come back to the node before them again and again."""

    @property
    def sentence(self) -> str:
        """Return the chain in words: ``evicts 5 pods: 3 come back elsewhere, 2 stay Pending``."""
        return f"evicts {counted(self.evicted, 'pod')}{self.fates}"

    @property
    def fates(self) -> str:
        """Return the fates in words, to follow the names of the pods, and what replacements evict in turn."""
        fates = (
            (self.moved, "comes back elsewhere", "come back elsewhere"),
            (self.returned, "returns to its node", "return to their nodes"),
            (self.pending, "stays Pending", "stay Pending"),
            (self.lost, "is gone for good", "are gone for good"),
        )
        if self.evicted == 1:
            text = ", which " + next((one for number, one, _ in fates if number), "waits")
        else:
            text = ": " + ", ".join(counted(number, one, many) for number, one, many in fates if number)
        if self.evicted_in_turn:
            replacements = counted(len(self.preempting), "replacement evicts", "replacements evict")
            text += f", and {replacements} {first_few(self.evicted_in_turn)} in turn"
        if self.outrun:
            waits = "waits on" if len(self.outrun) == 1 else "wait on"
            text += f", and replacements take the node again before {first_few(self.outrun)}, which {waits}"
        return text

    def name_victims(self, victims: Iterable[str]) -> list[str]:
        """Return the names of the victims; of pods with equal priority and start time all are named."""
        return list_victims(victims, self.tied)

    @property
    def goes_on(self) -> bool:
        """Whether pods do not simply come back elsewhere after one eviction."""
        return bool(self.evicted_in_turn or self.outrun or self.returned)
