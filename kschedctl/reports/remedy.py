"""A change that lets a pod schedule, as part of several reports."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from kschedctl.api.json_values import JsonDict
from kschedctl.reports.document import Document
from kschedctl.reports.placements import EvictionChain
from kschedctl.reports.summary import CostKind, FixCost, ShortFix, list_clauses
from kschedctl.text.counts import agreeing, counted, join_clauses, join_first_few, join_words

TEAMS = {"author": "app", "operator": "platform"}
"""Who makes a change -> their team: the workload's or the cluster's."""


class FixStanding(IntEnum):
    """How far a fix can be relied on. All texts show fixes in this order."""

    VERIFIED = 0
    """A replay shows that the pod gets a node, or other waiting pods were not replayed."""
    INCOMPLETE = 1
    """The user has to fill in values."""
    INSUFFICIENT = 2
    """Other waiting pods take the room, so that the pod still waits or has to evict other pods than the fix names."""
    LOSING = 3
    """More evicted pods stay without a node than waiting pods get one."""


class Remedy(Document, frozen=True):
    """The smallest set of changes that lets the pod schedule: none of them can be left out."""

    summary: str
    by: str
    """Who makes the changes: "author" of the workload or "operator" of the cluster, who could make all."""
    weakens: str | None
    """The guarantees that are given up; None for none."""
    opens: tuple[str, ...]
    """The nodes that then take the pod."""
    commands: tuple[str, ...]
    """The commands that make the changes, or instructions. No command may run after an earlier one failed."""
    changes: tuple[JsonDict, ...]
    """The changes of objects as they were read, one dict per object.

    Each is `{"kind", "namespace", "name", "patch"}` with RFC 6902 operations, `{"create": object}`, or `{"delete":
    {"kind", "namespace", "name"}}`. With `"anew": true` the API server rejects the patch as an update, so the object is
    deleted and created again.
    """
    kinds: tuple[str, ...] = ()
    """The kind of each change, for --only and --without."""
    victims: tuple[str, ...] = ()
    """The pods, or Workloads of Kueue, that are then preempted. If the workload's other pods change too, these are
    the victims of the whole rollout.
    """
    alternatives: tuple[str, ...] = ()
    """Other nodes or objects for which the same change works; each was replayed."""
    owner: str = ""
    """The workload that creates the pod."""
    owner_patch: JsonDict = {}
    """The change of the pod's spec as a strategic merge patch of the owner; empty if the spec stays."""
    restarts: int = 0
    """The number of running pods that the rollout replaces."""
    step: str = ""
    """The cost class of the dearest change, by which fixes are ordered: "patience", "correction", "room",
    "neighbour", "wish", "guarantee" or "loss".
    """
    chain: EvictionChain | None = None
    """The chain of evictions once the victims' controllers recreate them; None without victims."""
    holds: bool | None = None
    """True if the pod gets a node when, after the fix, all waiting pods are tried in the queue's order; None if this
    was not replayed. False also if the pod gets a node only by evicting pods that the fix alone does not evict.
    """
    rivals: tuple[str, ...] = ()
    """The waiting pods that take the room that the fix makes; empty if the fix holds."""
    preemption_node: str = ""
    """The node that the pod gets by evicting `preemption_victims` if the fix does not hold; empty if it gets none."""
    preemption_victims: tuple[str, ...] = ()
    """The pods that are evicted on `preemption_node`."""
    other_node: str = ""
    """The node that the pod gets after `ahead` if it gets none of `opens`; empty if it gets one of them."""
    ahead: tuple[str, ...] = ()
    """The waiting pods that take part of the room first, if the fix holds nevertheless."""
    also_places: tuple[str, ...] = ()
    """The other waiting pods that get a node with the fix, and get none without it."""
    needs_values: tuple[str, ...] = ()
    """The fields whose values only the user knows. A fix with such a field is described, and never called verified."""
    manifests: tuple[JsonDict, ...] = ()
    """The objects to complete and to create after the commands. The API server rejects them while a field is empty."""
    costs: tuple[FixCost, ...] = ()
    """The costs of the fix itself. ``weakens`` has most of them as one text."""
    edits: tuple[str, ...] = ()
    """The fields to change in the manifest, with their values, if the workload is not in the cluster yet."""

    @property
    def all_costs(self) -> tuple[FixCost, ...]:
        """All costs of the fix, the gravest first.

        The cost that the pod would still wait comes first, then a net loss of pods, and then the costs of the changes.
        If no costs of the changes are given, the guarantee that the fix gives up takes their place.
        """
        costs_of_changes = self.costs
        if not costs_of_changes and self.weakens:
            costs_of_changes = (FixCost(CostKind.GIVES_UP, self.weakens),)

        further_costs = []
        says_pod_waits = any(cost.kind is CostKind.STILL_WAITS for cost in costs_of_changes)
        if self.rivals:
            text = f"{join_first_few(self.rivals)} would be scheduled first, and {self._fate_of_pod}"
            further_costs.append(FixCost(CostKind.STILL_WAITS, text))
        elif self.preemption_node:
            further_costs.append(FixCost(CostKind.STILL_WAITS, self._fate_of_pod))
        elif self.holds is False and not says_pod_waits:
            text = "this pod would still wait after the scheduler has tried all waiting pods"
            further_costs.append(FixCost(CostKind.STILL_WAITS, text))
        if self.costs_more_pods_than_it_places:
            places = f"it places {counted(self._placed_pods, 'pod')}"
            stay = agreeing(self._homeless_pods, "stays", "stay")
            text = f"{places}, and {counted(self._homeless_pods, 'evicted pod')} {stay} without a node"
            further_costs.append(FixCost(CostKind.NET_LOSS, text, pods=self._homeless_pods))
        return (*further_costs, *costs_of_changes)

    @property
    def _fate_of_pod(self) -> str:
        """A clause that says what happens to the pod if the fix does not hold."""
        if not self.preemption_node:
            return "this pod would still wait"
        victims = join_first_few(self.preemption_victims)
        return f"this pod would get {self.preemption_node} only by evicting {victims}"

    @property
    def drawbacks(self) -> tuple[str, ...]:
        """The costs as clauses that follow "but". Costs that the summary mentions are left out."""
        return list_clauses(self.all_costs)

    @property
    def standing(self) -> FixStanding:
        """How far the fix can be relied on. A fix that needs values is never more than incomplete."""
        if self.needs_values:
            return FixStanding.INCOMPLETE
        if self.costs_more_pods_than_it_places:
            return FixStanding.LOSING
        # `holds` is None if the other waiting pods were not replayed
        return FixStanding.INSUFFICIENT if self.holds is False else FixStanding.VERIFIED

    @property
    def costs_more_pods_than_it_places(self) -> bool:
        """True if the fix places the pod, but more evicted pods stay without a node than waiting pods get one."""
        return self.holds is not False and self._homeless_pods > self._placed_pods

    @property
    def _homeless_pods(self) -> int:
        """The number of evicted pods that stay without a node."""
        return self.chain.pending + self.chain.lost if self.chain else 0

    @property
    def _placed_pods(self) -> int:
        """The number of waiting pods that get a node, if the pod itself does."""
        return 1 + len(self.also_places)

    @property
    def destination(self) -> str:
        """The nodes that then take the pod, in words: existing nodes by name, and nodes that the fix adds by number."""
        added = {change["create"]["metadata"]["name"] for change in self.changes if _creates_node(change)}
        existing = [node for node in self.opens if node not in added]
        places = []
        if existing:
            if len(existing) <= MOST_NAMED_NODES:
                places.append(join_words(existing))
            else:
                places.append(f"{len(existing):,} nodes, such as {join_words(existing[:MOST_NAMED_NODES])}")
        if len(existing) < len(self.opens):
            places.append("the new node" if len(added) == 1 else f"one of the {len(added):,} new nodes")
        return " or ".join(places)

    @property
    def gain(self) -> str:
        """A clause with the number of other waiting pods that the fix places, or "" if it places none."""
        if not self.also_places:
            return ""
        pods = len(self.also_places)
        return f"{counted(pods, 'other pending pod')} {agreeing(pods, 'gets', 'get')} a node, too"

    def to_short_fix(self, clears: int = 0) -> ShortFix:
        """Return the fix as a summary shows it. `clears` is the number of pods that it lets schedule.

        At most three nodes and three rivals are listed, and no commands if there are more than MOST_FIX_COMMANDS.
        """
        return ShortFix(
            summary=self.summary,
            owner=TEAMS[self.by],
            but=join_clauses(self.drawbacks),
            nodes=(self.other_node,) if self.other_node else self.opens[:3],
            clears=clears,
            commands=self.commands if len(self.commands) <= MOST_FIX_COMMANDS else (),
            edits=self.edits,
            costs=self.all_costs,
            rivals=self.rivals[:3],
            rival_count=len(self.rivals),
            also_places=len(self.also_places),
            costs_more_pods=self.costs_more_pods_than_it_places,
        )


def sort_incomplete_and_costly_fixes_last(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """Sort the fixes in the order in which an operator would try them.

    Fixes that cost more pods than they place come after other fixes, and fixes that need values from the user come
    last. A fix that needs values comes first, however, if it has fewer changes than every fix that needs none.
    """
    listed = tuple(remedies)
    fewest_changes = min((len(remedy.kinds) for remedy in listed if not remedy.needs_values), default=0)

    def get_place(remedy: Remedy) -> int:
        """Return the place of the remedy in the order."""
        if remedy.needs_values:
            has_fewest_changes = len(remedy.kinds) < fewest_changes
            return 0 if has_fewest_changes else 3
        return 2 if remedy.costs_more_pods_than_it_places else 1

    return tuple(sorted(listed, key=get_place))


def sort_verified_fixes_first(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """Sort the fixes by their standing, as all texts show them, and keep the order within each standing."""
    return tuple(sorted(remedies, key=lambda remedy: remedy.standing))


def chain_commands(commands: Iterable[str]) -> tuple[str, ...]:
    """Join a fix's commands with `&&`, so that pasting all of them stops at the first failure.

    Each command except the last ends with `&&`. Comments stay as they are. If a command fails after nodes were
    cordoned, the nodes that the later commands would uncordon are uncordoned.

    >>> chain_commands(("kubectl drain n1", "# wait for p", "kubectl patch"))
    ('kubectl drain n1 &&', '# wait for p', 'kubectl patch')
    >>> chain_commands(("kubectl cordon n1", "evict", "kubectl uncordon n1"))
    ('kubectl cordon n1 &&', 'evict ||', '{ kubectl uncordon n1; false; } &&', 'kubectl uncordon n1')
    """
    chained: list[str] = []
    cordoned: list[str] = []
    last_command: int | None = None  # the index of the last line in `chained` that is no comment
    for command in commands:
        if command.lstrip().startswith("#"):
            chained.append(command)
            continue
        node = command.removeprefix(UNCORDON) if command.startswith(UNCORDON) else ""
        if last_command is not None:
            must_restore = node in cordoned and not chained[last_command].startswith(UNCORDON)
            chained[last_command] += " ||" if must_restore else " &&"
            if must_restore:  # before the comments of this command
                chained.insert(last_command + 1, f"{{ {UNCORDON}{' '.join(cordoned)}; false; }} &&")
        if command.startswith(CORDON):
            cordoned.append(command.removeprefix(CORDON))
        elif node in cordoned:
            cordoned.remove(node)
        last_command = len(chained)
        chained.append(command)
    return tuple(chained)


CORDON, UNCORDON = "kubectl cordon ", "kubectl uncordon "
"""The starts of the commands that cordon and uncordon a node. The name of the node follows."""


MOST_NAMED_NODES = 3
"""The most nodes of a fix that a sentence names."""
MOST_FIX_COMMANDS = 4
"""The number of commands that a summary may have for a fix. Of more commands it has none: a part could do harm."""


def _creates_node(change: JsonDict) -> bool:
    """Return whether the change of an object creates a node."""
    return "create" in change and change["create"].get("kind") == "Node"
