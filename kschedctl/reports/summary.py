"""The short form of an answer, for chats and language models, at most 12 KB of JSON, with the costs of its fixes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from kschedctl.api.times import format_age_of_seconds
from kschedctl.reports.document import Document, RootDocument
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few, spell_age

MOST_BYTES = 12_000
"""The maximum length of the JSON."""
MOST_ENTRIES = 8
"""The maximum number of entries of a list."""
LONGEST = 400
"""The maximum number of characters of a text."""
MOST_COMMANDS = 3
"""The maximum number of commands to continue with."""
SHORTENED_LISTS = ("pods", "closest", "causes", "fixes", "victims", "warnings", "advice", "doubts")
"""The lists that are shortened if a summary is too long."""


class ShortCause(Document, frozen=True):
    """A reason in kube-scheduler's words."""

    reason: str
    nodes: int
    """The number of nodes to which it applies."""
    plugin: str = ""
    of_nodes: int = 0
    """The number of eligible nodes."""
    closest: str = ""
    """The node that is closest to passing."""
    fact: str = ""
    """The figures on the closest node."""
    conflict: str = ""
    """The demand of the pod that excludes another demand."""
    plain: str = ""
    """The cause in a sentence of its own: what is needed, and what is there."""


def describe_node_share(nodes: int, within: int, total: int) -> str:
    """Describe the nodes to which a reason applies, as a share of the eligible nodes or of all nodes.

    `nodes` is the number of these nodes, `within` is the number of eligible nodes (0 if unknown), and `total` is the
    number of all nodes. Return "" if the cluster has a single node.

    >>> describe_node_share(9, 9, 12), describe_node_share(2, 9, 12), describe_node_share(5, 0, 12)
    ('all 9 candidate nodes', '2 of 9 candidate nodes', '5 of 12 nodes')
    """
    if total == 1:
        return ""
    if nodes == 1 and within == 1:
        return "the only candidate node"
    only_some_are_eligible = 0 < within < total
    among = within if only_some_are_eligible else total
    noun = "candidate nodes" if only_some_are_eligible else "nodes"
    if nodes < among:
        return f"{nodes:,} of {among:,} {noun}"
    return f"both {noun}" if nodes == 2 else f"all {nodes:,} {noun}"


def describe_no_node(within: int, total: int) -> str:
    """Return the eligible nodes, or all nodes, as the subject of a clause about what none of them has.

    `within` is the number of eligible nodes (0 if unknown), and `total` is the number of all nodes.

    >>> describe_no_node(9, 12), describe_no_node(2, 12), describe_no_node(0, 12), describe_no_node(0, 1)
    ('none of the 9 candidate nodes', 'neither candidate node', 'none of the 12 nodes', 'no node')
    """
    only_some_are_eligible = 0 < within < total
    among = within if only_some_are_eligible else total
    noun = "candidate node" if only_some_are_eligible else "node"
    if among < 2:
        return f"no {noun}"
    return f"neither {noun}" if among == 2 else f"none of the {among:,} {noun}s"


class ShortNodes(Document, frozen=True):
    """Rejected nodes that have the same answer."""

    nodes: int
    """The number of nodes."""
    pools: tuple[str, ...]
    such_as: str
    """One of the nodes."""
    refused_by: tuple[str, ...]


class ShortFix(Document, frozen=True):
    """A change that was verified by replay."""

    summary: str
    owner: str
    """The team that makes the change: app or platform."""
    but: str = ""
    """The drawbacks, such as what the change gives up."""
    nodes: tuple[str, ...] = ()
    clears: int = 0
    """The number of pods that get a node with it."""
    commands: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()
    """The fields to change in the manifest, with their values."""
    rivals: tuple[str, ...] = ()
    """Some of the waiting pods that take the room first; empty if the fix holds."""
    rival_count: int = 0
    """The number of pods that take the room first."""
    also_places: int = 0
    """The number of other waiting pods that get a node with the fix, and get none without it."""
    costs_more_pods: bool = False
    """True if more evicted pods stay without a node than waiting pods get one, so that the fix is not worth it."""
    costs: tuple[FixCost, ...] = ()
    """The costs of the fix. No form of an answer shows its commands without them."""

    @property
    def words(self) -> str:
        """The summary of the fix with its drawbacks."""
        return f"{self.summary}, but {self.but}" if self.but else self.summary


class ShortPods(Document, frozen=True):
    """Pods with the same outcome: their number, one of the pods, and the reason."""

    pods: int
    such_as: str
    workload: str
    why: str


class Summary(RootDocument, frozen=True):
    """The decisive facts of an answer."""

    summarizes: str
    """The kind of the full document."""
    subject: str
    verdict: str
    headline: str
    """The first line of the full document."""
    message: str = ""
    as_if: str = ""
    """The difference between the explained pod and the requested one, such as `cpu=500m`; usually empty."""
    stands_for: str = ""
    """The pod of a workload that the explained pod stands for, such as `one more pod of Deployment d`."""
    replicas: str = ""
    """The number of the workload's pods that get a node, and their victims; empty if all fit without evictions."""
    undecided: bool = False
    causes: tuple[ShortCause, ...] = ()
    """The obstacles to the pod, or the reasons why nodes are rejected."""
    closest: tuple[ShortNodes, ...] = ()
    """The rejected nodes that are closest to fitting."""
    best: dict[str, int] = {}
    """Node -> score, for the best nodes, the best first."""
    nominated: str = ""
    """The node on which preemption would make room, or one of `nominated_choices` such nodes."""
    nominated_choices: int = 0
    """The number of equally good nodes of which preemption picks one at random; 0 if there is only one."""
    victims: tuple[str, ...] = ()
    """The pods that are evicted, in an explanation those that preemption would evict there."""
    warnings: tuple[str, ...] = ()
    """The costs of the answer: evicted pods, lost data and violated budgets."""
    pods: tuple[ShortPods, ...] = ()
    fixes: tuple[ShortFix, ...] = ()
    advice: tuple[str, ...] = ()
    preemption: str = ""
    """The reason why preemption cannot help, if it is because of the priorities of the pods."""
    figures: dict[str, int] = {}
    """Name -> number."""
    doubts: tuple[str, ...] = ()
    """The data that was not read, and the rules that are not replayed."""
    next: tuple[str, ...] = ()
    """Command lines to continue with."""
    left_out: dict[str, int] = {}
    """List -> the number of entries that did not fit in."""
    kind: str = "Summary"

    def shorten(self) -> Summary:
        """Return a copy whose JSON fits into MOST_BYTES, with shorter lists and texts.

        If lists with one entry each are still too long, the commands of fixes and the next steps are dropped. This last
        version is returned whatever its size.
        """
        summary = self
        for entries in range(MOST_ENTRIES, 0, -1):
            summary = summary._limit_entries_and_texts(entries)
            if len(msgspec.json.encode(summary)) <= MOST_BYTES:
                return summary
        return replace(summary, fixes=tuple(replace(fix, commands=()) for fix in summary.fixes), next=())

    def _limit_entries_and_texts(self, entries: int) -> Summary:
        """Return the summary with at most ``entries`` entries per list, and with long texts cut.

        The number of dropped entries is added to ``left_out``.
        """
        changed: dict[str, object] = {
            name: _cut_long_texts(getattr(self, name)) for name in ("subject", "headline", "message")
        }
        left_out = dict(self.left_out)
        for name in SHORTENED_LISTS:
            values = getattr(self, name)
            changed[name] = _cut_long_texts(values[:entries])
            if len(values) > entries:
                left_out[name] = left_out.get(name, 0) + len(values) - entries
        return replace(self, **changed, left_out=left_out)


def _cut_long_texts(value: object) -> object:
    """Return the value with long texts cut, including texts in tuples and structs.

    Commands stay whole, because half a command is useless.
    """
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    if isinstance(value, tuple):
        return tuple(map(_cut_long_texts, value))
    if isinstance(value, msgspec.Struct):
        names = [name for name in value.__struct_fields__ if name != "commands"]
        return replace(value, **{name: _cut_long_texts(getattr(value, name)) for name in names})
    return value


class CostKind(StrEnum):
    """The kinds of costs."""

    STILL_WAITS = "StillWaits"
    """Other pods take the room first, so that the pod still waits."""
    NET_LOSS = "NetLoss"
    """More evicted pods stay without a node than waiting pods get one."""
    PARTIAL = "Partial"
    """Some of the workload's pods still wait."""
    NEEDS_VALUES = "NeedsValues"
    """The fix is not verified until somebody fills in values."""
    CHECK_FIRST = "CheckFirst"
    """Something has to be found out before the commands are run. The fix's summary says so as well."""
    PAUSES = "Pauses"
    """Something that no command waits for has to happen between two of the commands."""
    LOSES = "Loses"
    """A pod, a volume or a device allocation is gone for good."""
    GIVES_UP = "GivesUp"
    """A guarantee is given up."""
    EVICTS = "Evicts"
    """Running pods are evicted or preempted."""
    DELETES = "Deletes"
    """Pods are deleted together with the object that makes them."""
    DELAYS = "Delays"
    """Workloads that would get quota without the fix wait instead."""
    RESTARTS = "Restarts"
    """Running pods of the changed workload are replaced in its rollout."""


class FixCost(Document, frozen=True):
    """One cost of a fix."""

    kind: CostKind
    text: str
    """A clause that follows "but"."""
    pods: int = 0
    """The number of pods that the fix evicts, deletes or restarts; 0 for other kinds of costs."""
    short: str = ""
    """A clause for a line or two, if the text names many pods; empty if the text is short itself."""

    @property
    def brief(self) -> str:
        """The clause in its shortest form, which still names what is lost."""
        return self.short or self.text


def build_restart_costs(restarts: int, owner: str) -> tuple[FixCost, ...]:
    """Return the cost of a rollout, which replaces the running pods, or () if ``restarts`` is 0.

    >>> [cost.text for cost in build_restart_costs(1, "Deployment shop/web")]
    ['restarts 1 running pod of Deployment shop/web']
    """
    if not restarts:
        return ()
    of_owner = f" of {owner}" if owner else ""
    return (FixCost(CostKind.RESTARTS, f"restarts {counted(restarts, 'running pod')}{of_owner}", restarts),)


class EvictionHarms(NamedTuple):
    """The harm of evicting pods that controllers recreate. Pods are `namespace/name`."""

    loses_data: tuple[str, ...] = ()
    """The pods whose emptyDir volumes are deleted."""
    ask_to_stay: tuple[str, ...] = ()
    """The pods whose annotations ask autoscalers not to evict them."""
    outages: tuple[str, ...] = ()
    """The workloads that have no running pod until replacements run."""
    starting_over: tuple[str, ...] = ()
    """The pods of Jobs, whose replacements start from the beginning."""
    slow_pods: dict[str, int] = {}
    """The pods with a long grace period, each with the seconds that it may take to end."""


def merge_eviction_harms(harms: Iterable[EvictionHarms]) -> EvictionHarms:
    """Merge the harms of evictions one after the other. A pod or workload that occurs several times is named once.

    >>> merge_eviction_harms([EvictionHarms(outages=("Job d/a",)), EvictionHarms(("d/p",), outages=("Job d/a",))])
    EvictionHarms(loses_data=('d/p',), ask_to_stay=(), outages=('Job d/a',), starting_over=(), slow_pods={})
    """
    all_harms = list(harms)

    def join_distinct(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        """Return the distinct names of the lists, in order."""
        return tuple(dict.fromkeys(name for names in lists for name in names))

    return EvictionHarms(
        loses_data=join_distinct(harm.loses_data for harm in all_harms),
        ask_to_stay=join_distinct(harm.ask_to_stay for harm in all_harms),
        outages=join_distinct(harm.outages for harm in all_harms),
        starting_over=join_distinct(harm.starting_over for harm in all_harms),
        slow_pods={pod: seconds for harm in all_harms for pod, seconds in harm.slow_pods.items()},
    )


class EvictingReport(Protocol):
    """A report with the fields of EvictionHarms."""

    @property
    def loses_data(self) -> tuple[str, ...]:
        """The pods whose emptyDir volumes are deleted."""

    @property
    def ask_to_stay(self) -> tuple[str, ...]:
        """The pods whose annotations ask autoscalers not to evict them."""

    @property
    def outages(self) -> tuple[str, ...]:
        """The workloads that have no running pod until replacements run."""

    @property
    def starting_over(self) -> tuple[str, ...]:
        """The pods of Jobs, whose replacements start from the beginning."""

    @property
    def slow_pods(self) -> dict[str, int]:
        """The pods with a long grace period, each with the seconds that it may take to end."""


def list_eviction_costs(harms: EvictingReport) -> tuple[FixCost, ...]:
    """Return what evictions cost: data, running pods, work and time, and pods that ask not to be evicted.

    >>> [cost.text for cost in list_eviction_costs(EvictionHarms(ask_to_stay=("shop/web-1",)))]
    ['evicts shop/web-1, whose annotations ask not to be evicted']
    >>> [cost.text for cost in list_eviction_costs(EvictionHarms(slow_pods={"shop/web-1": 600, "shop/web-2": 7200}))]
    ['waits up to 120 min for shop/web-2 to end, because of its terminationGracePeriodSeconds']
    """
    costs = []
    if harms.loses_data:
        text = f"deletes the emptyDir data of {first_few(harms.loses_data)}"
        short = f"deletes emptyDir data of {first_few(harms.loses_data, 1)}"
        costs.append(FixCost(CostKind.LOSES, text, short=short))
    if harms.ask_to_stay:
        text = f"evicts {first_few(harms.ask_to_stay)}, whose annotations ask not to be evicted"
        costs.append(FixCost(CostKind.GIVES_UP, text))
    if harms.outages:
        until = agreeing(len(harms.outages), "until its replacement runs", "until replacements run")
        text = f"leaves {join_first_few(harms.outages)} without a running pod {until}"
        short = f"leaves {first_few(harms.outages, 1)} without a running pod for a while"
        costs.append(FixCost(CostKind.GIVES_UP, text, short=short))
    if harms.starting_over:
        start = agreeing(len(harms.starting_over), "whose Job starts it", "whose Jobs start them")
        text = f"ends {first_few(harms.starting_over)}, {start} again from the beginning"
        ended = counted(len(harms.starting_over), "pod")
        short = f"ends {ended} of Jobs, {start} again"
        costs.append(FixCost(CostKind.LOSES, text, short=short))
    if harms.slow_pods:
        slowest = max(harms.slow_pods, key=harms.slow_pods.__getitem__)
        period = spell_age(format_age_of_seconds(harms.slow_pods[slowest]))
        text = f"waits up to {period} for {slowest} to end, because of its terminationGracePeriodSeconds"
        costs.append(FixCost(CostKind.GIVES_UP, text, short=f"waits up to {period} for {slowest} to end"))
    return tuple(costs)


def list_clauses(costs: Iterable[FixCost]) -> tuple[str, ...]:
    """Return the costs as clauses to show next to a fix's summary, except costs that the summary already names."""
    return tuple(cost.text for cost in costs if cost.kind is not CostKind.CHECK_FIRST)
