"""Rules about nodeSelector, node affinity and nodeName."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.labels import parse_int64
from kschedctl.api.node_selector import NodeSelectorError, compile_preferred_terms
from kschedctl.api.objects import StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.facts import ClusterFacts
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.analysis.node_requirements import list_node_condition_alternatives
from kschedctl.lint.analysis.placement import NODE_TERMS, PREFERRED, get_required_node_terms, iter_node_affinity_terms
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, for_each_workload
from kschedctl.scheduler.plugins.helper.volume_listers import WAIT_FOR_FIRST_CONSUMER, get_claim_class
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity, describe_requirement
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.text.counts import counted, join_words

ISOLATION_WORDS = ("dedicated", "isolat", "tenant", "restricted", "compliance", "pci", "secure")
MAX_TERMS = 3
"""The maximum number of required affinity terms that a message describes."""
RESTRICTED_PREFIX = "node-restriction.kubernetes.io/"


def find_selectors_without_nodes(context: LintContext) -> Iterator[Problem]:
    """Find workloads whose node selector or required affinity matches no node, confirmed by a replay.

    DaemonSets are left out, since they may wait for nodes.
    """
    facts = context.facts
    for workload in context.workloads:
        if workload.kind == "DaemonSet" or not len(facts) or facts.get_selected_nodes(workload).any():
            continue
        if facts.is_always_rejected_by(workload, (NodeAffinity,)):
            nodes = "the only node does not match" if len(facts) == 1 else f"none of the {len(facts):,} nodes matches"
            message = f"{nodes} {describe_node_requirements(workload)}"
            yield workload.build_problem(get_selection_path(workload), message, _suggest_label_value(facts, workload))


NA_NO_NODE_MATCHES = Rule(
    "na-no-node-matches",
    ERROR,
    find_selectors_without_nodes,
    summary="nodeSelector or required node affinity that no node matches",
    why="The pods stay Pending until a matching node joins. Verified by replay: the pods fit on no node.",
    fix="Correct the labels, or add matching nodes",
    source=doc.AFFINITY,
    needs_cluster=True,
)


def _suggest_label_value(facts: ClusterFacts, workload: Workload) -> str:
    """Return "Did you mean KEY=VALUE?" for the first misspelled node label that the pod requires, or "".

    Labels in nodeSelector and in required node affinity with the operator In are compared with the labels of nodes.
    """
    required_labels = list(workload.spec.node_selector.items())
    for term in get_required_node_terms(workload):
        for expression in term.match_expressions:
            if expression.operator == "In":
                required_labels += [(expression.key, value) for value in expression.values or ()]
    for key, value in required_labels:
        existing_values = facts.view.nodes.label(key).values
        similar_value = "" if value in existing_values else find_similar_name(value, existing_values)
        if similar_value:
            return f"Did you mean {key}={similar_value}?"
    return ""


def find_selectors_with_one_node(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads that can use only one of several nodes.

    Workloads that select the node by hostname are left out.
    """
    facts = context.facts
    for workload in context.workloads:
        selected = facts.get_selected_nodes(workload)
        if workload.kind not in SERVING_KINDS or HOSTNAME in workload.spec.node_selector:
            continue
        if len(facts) > 1 and selected.sum() == 1:
            name = facts.format_node_names(selected)
            message = f"only node {name} matches {describe_node_requirements(workload)}"
            yield workload.build_problem(get_selection_path(workload), message)


NA_ONE_NODE_MATCHES = Rule(
    "na-one-node-matches",
    WARNING,
    find_selectors_with_one_node,
    summary="nodeSelector or required node affinity that only one node matches",
    why="If that node is drained or fails, the pods fit on no other node.",
    fix="Select a label that several nodes have",
    source=doc.AFFINITY,
    needs_cluster=True,
)


def find_contradictory_conditions(workload: Workload) -> Iterator[Problem]:
    """Report a workload whose required conditions on node labels contradict each other in every alternative."""
    conflicts = [alternative.conditions.conflicts for alternative in list_node_condition_alternatives(workload.spec)]
    if conflicts and all(conflicts):
        keys = join_words(list(dict.fromkeys(key for conflicting_keys in conflicts for key in conflicting_keys)))
        yield workload.build_problem(get_selection_path(workload), f"no node can meet all conditions on {keys}")


NA_CONTRADICTION = Rule(
    "na-contradiction",
    ERROR,
    for_each_workload(find_contradictory_conditions),
    summary="nodeSelector and required node affinity, or expressions in them, that contradict each other",
    why="nodeSelector and required node affinity must both match. No node can meet all of these conditions, so the "
    "pods stay Pending.",
    fix="Remove one of the conditions",
    source=doc.AFFINITY,
)


def find_non_integer_bounds(workload: Workload) -> Iterator[Problem]:
    """Find node affinity conditions of a workload with the operator Gt or Lt and a value that is no integer."""
    for path, term in iter_node_affinity_terms(workload):
        for j, expression in enumerate(term.match_expressions):
            values = expression.values or ()
            if expression.operator not in ("Gt", "Lt") or len(values) != 1:
                continue
            (value,) = values
            if parse_int64(value) is None:
                message = f"\"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                yield workload.build_problem((*path, "matchExpressions", j, "values"), message)


NA_NOT_INTEGER = Rule(
    "na-not-integer",
    ERROR,
    for_each_workload(find_non_integer_bounds),
    summary="Operator Gt or Lt with a value that is not an integer",
    why="The API server accepts the value, but every attempt to schedule the pod fails.",
    fix="Write an integer in quotes",
    source="NewRequirement in staging/src/k8s.io/apimachinery/pkg/labels/selector.go (v1.36)",
)


def find_preferences_without_nodes(context: LintContext) -> Iterator[Problem]:
    """Find preferred node affinity terms that no node matches.

    Invalid terms are left out. Finds nothing in a cluster without nodes.
    """
    facts = context.facts
    if not len(facts):
        return
    for workload in context.workloads:
        affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
        if affinity is None:
            continue
        for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
            try:
                compiled = compile_preferred_terms((term,))
            except NodeSelectorError:
                continue
            weights = facts.view.nodes.weigh_preferred_terms(compiled)
            if not weights.any():
                message = "no node matches, so the preference has no effect"
                yield workload.build_problem(("affinity", "nodeAffinity", PREFERRED, i), message)


NA_PREFERRED_DEAD = Rule(
    "na-preferred-dead",
    NOTE,
    find_preferences_without_nodes,
    summary="Preferred node affinity that no node matches",
    why="The preference has no effect. The usual cause is a misspelled label.",
    fix="Correct the label, or remove the preference",
    source=doc.AFFINITY,
    needs_cluster=True,
)


def find_pods_pinned_to_node(context: LintContext) -> Iterator[Problem]:
    """Find workloads that are pinned to one node by nodeName, or by a hostname in nodeSelector.

    With a hostname in nodeSelector, Pods, Jobs and CronJobs are left out. For nodeName, the message also names a claim
    that is never bound because of it, if there is one.
    """
    waiting_classes = {
        storage_class.metadata.name
        for storage_class in context.list_all_objects(StorageClass)
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    }
    for workload in context.workloads:
        spec = workload.spec
        if spec.node_name:
            message = f"nodeName {spec.node_name} bypasses the scheduler: room, taints and volumes are not checked"
            unbound_claims = (claim for _, claim in context.iter_claims(workload) if not claim.spec.volume_name)
            waiting_claims = (claim for claim in unbound_claims if get_claim_class(claim) in waiting_classes)
            claim = next(waiting_claims, None)
            if claim is not None:
                message += f", and claim {claim.metadata.name} of class {get_claim_class(claim)} is never bound"
            yield workload.build_problem(("nodeName",), message)
        elif HOSTNAME in spec.node_selector and workload.kind not in ("Pod", "Job", "CronJob"):
            message = (
                f"pinned to node {spec.node_selector[HOSTNAME]}: if the node fails, no other node can run its pods"
            )
            yield workload.build_problem(("nodeSelector", HOSTNAME), message)


NA_NODE_NAME_PIN = Rule(
    "na-node-name-pin",
    WARNING,
    find_pods_pinned_to_node,
    summary="Pods pinned to one node by nodeName or hostname",
    why="nodeName bypasses the scheduler: pods fail on a full or tainted node, and WaitForFirstConsumer claims "
    "never bind. A hostname in nodeSelector ties the workload to one node.",
    fix="Select nodes by a label that several nodes share",
    source=f"{doc.AFFINITY}#nodename",
)


def find_isolation_by_kubelet_labels(workload: Workload) -> Iterator[Problem]:
    """Find nodeSelector labels that seem to isolate pods although a kubelet may set them itself."""
    for key in workload.spec.node_selector:
        if any(word in key.lower() for word in ISOLATION_WORDS) and RESTRICTED_PREFIX not in key:
            message = f"a compromised kubelet can set the label {key} on its own node"
            yield workload.build_problem(("nodeSelector", key), message)


NA_KUBELET_SETTABLE_LABEL = Rule(
    "na-kubelet-settable-label",
    NOTE,
    for_each_workload(find_isolation_by_kubelet_labels),
    summary="Pods isolated by a node label that kubelets may set",
    why="A compromised node can set the label on itself to attract sensitive pods.",
    fix="Use labels with the prefix node-restriction.kubernetes.io/",
    source=f"{doc.AFFINITY}#node-isolation-restriction",
)


def get_selection_path(workload: Workload) -> Path:
    """Return the path of the required node affinity terms, or of nodeSelector if there is no required affinity."""
    affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return NODE_TERMS if required is not None else ("nodeSelector",)


def describe_node_requirements(workload: Workload) -> str:
    """Describe the nodeSelector and required node affinity of a workload, such as `pool=web, zone=a or zone=b`.

    Terms after the first `MAX_TERMS` are only counted. Without either, the text is `its node affinity`.
    """
    conditions = [f"{key}={value}" for key, value in workload.spec.node_selector.items()]
    terms = []
    for term in get_required_node_terms(workload):
        requirements = (*term.match_expressions, *term.match_fields)
        if requirements:
            terms.append(" and ".join(map(describe_requirement, requirements)))
    if len(terms) > MAX_TERMS:
        terms[MAX_TERMS:] = [f"{counted(len(terms) - MAX_TERMS, 'more term')}"]
    if terms:
        conditions.append(" or ".join(terms))
    return ", ".join(conditions) or "its node affinity"
