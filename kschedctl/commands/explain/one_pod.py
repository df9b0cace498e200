"""``explain``: one pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kschedctl.api.copying import replace
from kschedctl.api.json_values import object_at
from kschedctl.api.validation.manifests import KINDS
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.attempt import PodReference, as_events, explain_stand_in, explanations, stand_in_of
from kschedctl.commands.explain.pending_pods import UNSCHEDULABLE
from kschedctl.commands.explain.report import Explanation
from kschedctl.commands.explain.reports import Explanations
from kschedctl.commands.explain.retries import with_audited_retries
from kschedctl.fixes.new_node import autoscaler_fixes, new_node
from kschedctl.replay.controllers.target_pod import TargetPod, with_other_priority
from kschedctl.replay.denials import raise_if_denied
from kschedctl.reports.new_node import NewNode
from kschedctl.reports.remedy import Remedy, complete_first
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import moment_of


def explain(
    cluster: Cluster,
    pod: PodReference,
    *,
    remedies: bool = False,
    as_if_priority: int | None = None,
    as_if_priority_class: str = "",
    call_extender: CallExtender | None = None,
    now: str = "",
    as_written: bool = False,
) -> Explanation:
    """Why is this pod Pending? One scheduling cycle of kube-scheduler for it, as ``kschedctl explain`` tells it.

    ``message`` of a pod that a gate holds back is what kube-scheduler would write once it is released; with
    ``as_written``, as the command has it, what it writes, and that is nothing.

    ``pod``: ``namespace/name`` of one in the cluster, or a manifest (dict) that is not in it yet, of a workload one
    pod. With ``remedies`` the best of the smallest changes that would let it schedule are searched, which takes longer;
    the command does. With ``as_if_priority`` or ``as_if_priority_class`` it is replayed with another priority. The
    configuration's extenders are asked by ``call_extender(extender, verb, payload) -> (HTTP status, body)``: the
    extender as in the configuration, and decoded JSON of k8s.io/kube-scheduler/extender/v1; the body is None unless the
    status is 200. Without it the answer says what they might change. ``now``: an RFC 3339 time for autoscalers; when
    the cluster was read. Raises UsageError when there is no such pod or class, InputError for a manifest that cannot be
    read or that the API server refuses, ConfigurationError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> requests = {"resources": {"requests": {"cpu": "3"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", **requests}]}
    >>> web = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    >>> report = explain(kschedctl.Cluster.from_objects([node]), web)
    >>> report.verdict, report.eliminations[0].reason
    ('Unschedulable', 'Insufficient cpu')
    """
    asked = asked_pod(cluster, pod, call_extender)
    asked = asked._replace(pod=with_other_priority(asked, as_if_priority, as_if_priority_class))
    report = _explained_at(now or moment_of(cluster), asked, remedies)
    return as_events(report) if as_written else report


def _explained_at(now: str, asked: TargetPod, remedies: bool) -> Explanation:
    return explained(
        asked,
        lambda asked: new_node(asked, now),
        lambda asked, told: autoscaler_fixes(asked, told, now),
        remedies=remedies,
        now=now,
    )


def asked_pod(cluster: Cluster, pod: PodReference, call_extender: CallExtender | None = None) -> TargetPod:
    """The pod that is meant. Raises what ``explain`` raises."""
    if isinstance(pod, Mapping) and pod.get("kind") in KINDS and not object_at(pod, "metadata").get("uid"):
        raise_if_denied(pod, cluster, admission=False)
    return stand_in_of(Scheduler(cluster, call_extender), pod)


def explained(
    asked: TargetPod,
    launched: Callable[[TargetPod], NewNode | None],
    fixed: Callable[[TargetPod, NewNode], tuple[Remedy, ...]],
    *,
    remedies: bool,
    now: str = "",
) -> Explanation:
    """Return the whole explanation at the RFC 3339 time ``now``.

    ``launched`` tells if an autoscaler launches a node for a pod that gets none, and ``fixed`` what lets it do so.
    """
    report = with_audited_retries(explain_stand_in(asked), asked.scheduler, now)
    if report.verdict == UNSCHEDULABLE:
        report = replace(report, new_node=launched(asked))
    if not remedies:
        return report
    from kschedctl.commands.explain.fixes import with_remedies  # noqa: PLC0415 - a summary needs none
    from kschedctl.fixes.ranking import with_autoscaler_fixes  # noqa: PLC0415 - a summary needs none

    report = with_remedies(report, asked)
    more = fixed(asked, report.new_node) if report.new_node else ()
    return replace(report, remedies=complete_first(with_autoscaler_fixes(report.remedies, more))) if more else report


def explained_together(reports: Sequence[Explanation]) -> Explanation | Explanations:
    """One explanation, or several as one document, with the messages that kube-scheduler writes."""
    written = [as_events(report) for report in reports]
    return written[0] if len(written) == 1 else explanations(written)
