"""The group of Kubernetes that a pod is of, with the tree that this is of, if it is of one."""

from __future__ import annotations

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.group_tree import tree_report
from kschedctl.commands.explain.pod_group import pod_group_report, with_pod
from kschedctl.commands.explain.pod_group_report import PodGroupReport
from kschedctl.scheduler.engine.pod_groups.hierarchy import composite_tree
from kschedctl.scheduler.engine.pod_groups.state import placed_in_groups
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pods import group_key


def own_group_report(scheduler: Scheduler, framework: Framework, pod: Pod) -> PodGroupReport | None:
    """The group of a pod, as the API server holds it; None for one that is scheduled by itself."""
    key = group_key(pod) if placed_in_groups(scheduler.gates) else None
    if key is None:
        return None
    scheduler = with_pod(scheduler, pod)
    tree = composite_tree(scheduler.view, key)
    if tree is None:
        return pod_group_report(scheduler, framework, pod)
    return tree_report(scheduler, framework, tree, key, pod)
