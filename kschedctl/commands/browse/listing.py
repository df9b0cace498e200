"""The left pane: pending pods by cause, pods that do not exist yet, and the nodes and workloads of a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.ownership import Owner
from kschedctl.commands.browse.lines import (
    HELD_BACK,
    NAMESPACE,
    NODE,
    NOT_CREATED,
    POD,
    WORKLOAD,
    Layout,
    ListLine,
    Openable,
    shorten,
    wrap_text,
)
from kschedctl.commands.browse.session import BrowseSession
from kschedctl.commands.explain.headline import FOR_EACH
from kschedctl.commands.explain.pending_report import PendingPod, PendingPods
from kschedctl.render.page import count
from kschedctl.text.printable import put_reason_in_plain_words

HEADING, FAINT = "bold", "dim"
BY_CAUSE, BY_AGE, BY_NAME = "cause", "age", "name"
POD_ORDERS = (BY_CAUSE, BY_AGE, BY_NAME)
MAX_CAUSE_LINES = 2
"""The maximum number of lines for a cause. The right pane shows it in full."""
NOTHING_PENDING = "no pod is pending here"
TITLE_OF_MISSING, TITLE_OF_HELD_BACK = "Pods that could not be created", "Not seen by kube-scheduler yet"


def build_workload_subject(owner: Owner) -> Openable:
    """Build the subject that opens the workload's screen."""
    return Openable(WORKLOAD, str(owner), owner)


class PodListing(NamedTuple):
    """The filter and the order of the list of pods."""

    text: str = ""
    """The text to search for."""
    namespace: str = ""
    """The namespace to list, or an empty string for all."""
    order: str = BY_CAUSE
    """One of POD_ORDERS."""

    @property
    def description(self) -> str:
        """A description of the namespace and order, unless they are the defaults."""
        namespace = f"namespace {self.namespace}" if self.namespace else ""
        return " · ".join(filter(None, (namespace, f"by {self.order}" if self.order != BY_CAUSE else "")))

    @property
    def next_order(self) -> str:
        """The order after the current one."""
        return POD_ORDERS[(POD_ORDERS.index(self.order) + 1) % len(POD_ORDERS)]


def lay_out_listing(session: BrowseSession, pod_listing: PodListing) -> Layout:
    """Return the layout of the pods that `pod_listing` selects, and of objects that wait without a pending pod.

    The pods are in the order of `pod_listing`. In a search, the matching nodes and workloads follow. If nothing was
    found, a message says so.
    """
    hits = session.search(pod_listing.text) if pod_listing.text else None
    namespace_prefix = f"{pod_listing.namespace}/" if pod_listing.namespace else ""
    pods = {}
    for group in session.pods_by_cause.groups:
        for pod, member in zip(group.pods, group.members, strict=True):
            is_hit = hits is None or pod in hits.pods
            if is_hit and pod.startswith(namespace_prefix):
                pods[pod] = member
    missing_workloads = [
        Openable(NOT_CREATED, name)
        for name, failure in session.missing_workloads.items()
        if _does_listing_include(pod_listing, name, failure.headline)
    ]
    held_back = [
        Openable(HELD_BACK, name)
        for name, entry in session.held_back.items()
        if _does_listing_include(pod_listing, name, entry.headline)
    ]

    def lay_out_lines(width: int) -> list[ListLine]:
        """Lay out the pods, then the nodes and workloads that were found, or a message that there are none."""
        if pod_listing.order == BY_CAUSE:
            listed = _list_pod_lines_by_cause(session.pods_by_cause, pods, width)
        else:
            listed = _list_sorted_pod_lines(pods, pod_listing.order, width)
        listed += _build_section(TITLE_OF_MISSING, missing_workloads, width)
        listed += _build_section(TITLE_OF_HELD_BACK, held_back, width)
        if hits is not None:
            nodes = [Openable(NODE, name) for name in hits.nodes]
            workloads = [build_workload_subject(owner) for owner in hits.workloads]
            listed += _build_section("Nodes", nodes, width, more=hits.more_nodes)
            listed += _build_section("Workloads", workloads, width, more=hits.more_workloads)
        if listed:
            return listed
        message = NOTHING_PENDING if hits is None else "no pod, node or workload has a name with this text"
        return [ListLine(line, HEADING) for line in wrap_text(message, width)]

    return lay_out_lines


def _does_listing_include(pod_listing: PodListing, name: str, headline: str) -> bool:
    """Return whether the listing includes an object, by its namespace and by the text in its name or headline.

    `name` is such as `Deployment shop/web`.
    """
    is_in_namespace = not pod_listing.namespace or f" {pod_listing.namespace}/" in name
    return is_in_namespace and pod_listing.text.lower() in f"{name} {headline}".lower()


def describe_session(session: BrowseSession) -> str:
    """Describe the session in one line: the numbers of pending pods, waiting objects and nodes.

    The scope and the server are named as well.
    """
    pods = count(len(session.pending_pods), "pending pod")
    nodes = count(len(session.cluster.nodes), "node")
    server = session.cluster.provenance.server if session.cluster.provenance else ""
    missing_text = count(len(session.missing_workloads), "workload lacks pods", "workloads lack pods")
    held_back = count(len(session.held_back), "object waits elsewhere", "objects wait elsewhere")
    parts = (
        pods,
        missing_text if session.missing_workloads else "",
        held_back if session.held_back else "",
        session.pods_by_cause.scope,
        nodes,
        server,
    )
    return " · ".join(filter(None, parts))


def lay_out_namespaces(session: BrowseSession) -> Layout:
    """Return the layout of the list of namespaces: a line for all, and one for each namespace of pending pods.

    Each line has the number of pending pods.
    """
    pod_counts: Counter[str] = Counter()
    for group in session.pods_by_cause.groups:
        for pod in group.pods:
            namespace, _, _ = pod.partition("/")
            pod_counts[namespace] += 1

    def build_line(namespace: str, name: str, pods: int, width: int) -> ListLine:
        """Build the line that opens a namespace, or all namespaces if it is empty."""
        return ListLine(f" {pods:>6,}  {shorten(name, width - 9)}", "", Openable(NAMESPACE, namespace))

    def lay_out_lines(width: int) -> list[ListLine]:
        """Lay out a line for all namespaces and a line for each namespace."""
        return [
            ListLine("Namespace of the pending pods", HEADING),
            build_line("", "all", pod_counts.total(), width),
            *(build_line(name, name, pods, width) for name, pods in sorted(pod_counts.items())),
        ]

    return lay_out_lines


def _list_sorted_pod_lines(pods: Mapping[str, PendingPod], order: str, width: int) -> list[ListLine]:
    """List the pods by age, oldest first, or by name. Pods of unknown age come last."""
    if order == BY_AGE:
        title = "Oldest first"
        keys = sorted(pods, key=lambda pod: (pods[pod].created or "~", pod))  # "~" sorts after every timestamp
    else:
        title = "By name"
        keys = sorted(pods)
    heading = [ListLine(title, HEADING)] if keys else []
    return [*heading, *(ListLine(_format_pod_with_age(pods[pod], width), "", Openable(POD, pod)) for pod in keys)]


def _format_pod_with_age(member: PendingPod, width: int) -> str:
    """Format a pod's age and name."""
    return f" {member.age:>5} {shorten(member.pod, width - 7)}"


def _list_pod_lines_by_cause(pending: PendingPods, shown: Mapping[str, PendingPod], width: int) -> list[ListLine]:
    """List the pods in `shown` below their causes. Causes without such a pod are left out."""
    lines: list[ListLine] = []
    for group in pending.groups:
        pods = [pod for pod in group.pods if pod in shown]
        if pods:
            reason = put_reason_in_plain_words(group.cause) or group.verdict
            if len(group.pods) == 1:  # the only pod is considered alone anyway
                reason = reason.removesuffix(FOR_EACH)
            cause = f"{len(pods):,} · {reason}"
            lines += [ListLine(line, HEADING) for line in wrap_text(cause, width, "  ", MAX_CAUSE_LINES)]
            lines += [ListLine(f" {shorten(pod, width - 1)}", "", Openable(POD, pod)) for pod in pods]
    return lines


def _build_section(title: str, subjects: Sequence[Openable], width: int, *, more: int = 0) -> list[ListLine]:
    """Build the lines of a section: a title, the subjects, and the number of further subjects, `more`.

    Return [] if there are no subjects.
    """
    if not subjects:
        return []
    remainder = [ListLine(f" … {more:,} more", FAINT)] if more else []
    return [
        ListLine(title, HEADING),
        *(ListLine(f" {shorten(subject.name, width - 1)}", "", subject) for subject in subjects),
        *remainder,
    ]
