"""Which pods ``explain`` is about: those that are named, those of the files, else all that are pending."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner
from kschedctl.cli import pods
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope
from kschedctl.cli.references import Reference, references
from kschedctl.cli.refusals import refuse_invalid
from kschedctl.cli.source import lone_pod
from kschedctl.errors import UsageError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.controllers.manifests import in_files
from kschedctl.studies.controllers.stand_in import StandIn, created
from kschedctl.studies.controllers.workload_pods import of_workload, pods_of, workloads


def named(inquiry: Inquiry, words: Sequence[str], scope: Scope, home: str) -> list[StandIn]:
    """The pods, or those that stand for the workloads, that the words name; in ``home`` where nothing else is said.

    Raises KschedctlError.
    """
    keys = dict.fromkeys(_key(inquiry, reference, scope, home) for reference in references(words))
    return of_keys(inquiry, list(keys))


def of_files(inquiry: Inquiry, scope: Scope) -> list[StandIn] | None:
    """Those that the files ask about; None where they describe a cluster. Raises KschedctlError.

    Of several pods that the cluster has already nothing is said here: they are among the pending ones.
    """
    keys = list(inquiry.asked)
    there = [key for key in keys if key.kind == "Pod" and key not in inquiry.manifests]
    if len(there) > 1:
        keys = [key for key in keys if key not in there]
    if not keys and not there and not inquiry.around and (lone := lone_pod(inquiry.cluster)):
        keys = [Owner("Pod", lone.metadata.namespace, lone.metadata.name)]
    for kind, namespace, name in keys if scope.namespace else ():
        if namespace != scope.namespace:
            raise UsageError(f'{kind} {name}: the manifest says namespace "{namespace}", not "{scope.namespace}"')
    found = of_keys(inquiry, keys) if keys else []
    if scope.selector:
        selector = parse_selector(scope.selector)
        found = [each for each in found if selector.matches(each.pod.metadata.labels)]
    return found or None


def without_pods(inquiry: Inquiry, scope: Scope) -> list[Owner]:
    """The workloads of the scope that stand in files beside nodes, and of which the cluster has no pod."""
    namespace = None if scope.all_namespaces else scope.namespace or DEFAULT_NAMESPACE
    mine = (key for key in inquiry.manifests if namespace in (None, key.namespace) and not scope.selector)
    return [key for key in mine if not pods_of(inquiry.cluster, key)]


def of_keys(inquiry: Inquiry, keys: Sequence[Owner]) -> list[StandIn]:
    """The pods that are meant, those of manifests as if all of these were created. Raises KschedctlError."""
    with in_files(inquiry.places):
        manifests = [key for key in keys if key in inquiry.manifests]
        refuse_invalid([inquiry.written[key] for key in manifests], inquiry.cluster, inquiry.namespace)
        made = dict(zip(manifests, created(inquiry.cluster, [inquiry.manifests[k] for k in manifests]), strict=True))
        found = []
        scheduler = Scheduler(inquiry.cluster)
        for key in keys:
            if key in made:
                found.append(made[key])
            elif key.kind == "Pod":
                pod = inquiry.cluster.pod(key.namespace, key.name)
                assert pod is not None
                found.append(StandIn(scheduler, scheduler.view.stored(pod)))
            else:
                found += of_workload(inquiry.cluster, key, inquiry.template(key))
    return found


def _key(inquiry: Inquiry, reference: Reference, scope: Scope, home: str) -> Owner:
    """What one word means. Raises UsageError when that is not just one thing."""
    kind, namespace, name = reference
    if kind == "Node":
        raise UsageError(
            f'"node/{name}" is a node', hint="explain is about pods; drain says where a node's pods would go"
        )
    if namespace and scope.namespace not in (None, namespace):
        raise UsageError(f'"{namespace}/{name}" is not in namespace "{scope.namespace}"', hint="leave -n out")
    everywhere = scope.all_namespaces and not namespace
    namespace = namespace or scope.namespace or home
    written = [
        k for k in inquiry.manifests if k.kind == kind and k.name == name and (everywhere or k.namespace == namespace)
    ]
    if len(written) == 1:
        return written[0]
    if kind == "Pod":
        pod: Pod = pods.find(inquiry.cluster, name, None if everywhere else namespace)
        return Owner("Pod", pod.metadata.namespace, pod.metadata.name)
    if not everywhere:
        return Owner(kind, namespace, name)
    known = dict.fromkeys(k for k in (*inquiry.stored, *workloads(inquiry.cluster)) if (k.kind, k.name) == (kind, name))
    if len(known) > 1:
        which = ", ".join(f"{k.namespace}/{name}" for k in known)
        raise UsageError(f'"{kind.lower()}/{name}" names {len(known)}: {which}', hint="say which with -n")
    return next(iter(known), Owner(kind, namespace, name))
