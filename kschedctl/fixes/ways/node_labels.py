"""Fixes for node labels: correct the nodeSelector or RuntimeClass, require less, or label a node.

Admission puts the RuntimeClass's node selector and overhead back into every pod that is created, so changes of the
pod's own selector do not remove them. Reference: Runtime Class, "Scheduling" (k8s.io/docs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import Node, Pod, RuntimeClass, RuntimeClassScheduling, Toleration
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_node, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import PLATFORMS
from kschedctl.fixes.trial.trials import find_runtime_class
from kschedctl.fixes.trial.tried_node import TriedNode, find_missing_host_with_data
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework.facts import Wanted
from kschedctl.snapshot.node_order import HOSTNAME

CORRECT, LABEL, WIDEN, OTHER, DROP, OTHER_HOST = 10, 30, 50, 59, 60, 130
"""To be pinned to another host keeps nothing of what was wished for, so it is dearer than not to be pinned."""
RENAMED = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old label -> new. Reference: Well-Known Labels, Annotations and Taints, k8s.io/docs."""
SYNONYMS = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64"}
TOPOLOGIES = ("topology.kubernetes.io/zone", HOSTNAME)
OF_ROLES = ("", "true", "yes", "enabled")
"""Values of labels by which operators give nodes a role; others tell how a node is."""
ANYWHERE = "the pod may run on nodes that it was kept from"
NUMBERED = re.compile(r"(?:[0-9]+|(?<=[-_.])[a-z0-9]{1,2})$", re.IGNORECASE)
"""By what names end that are told apart by it: zone-a, node12."""


def fix_selector(tried: TriedNode, wanted: Wanted) -> Iterator[Fix]:
    """Yield fixes for one nodeSelector label: correct it, use another value, label the node, or drop it."""
    pod, key, value = tried.trial.pod, wanted.key, wanted.values[0]
    for right in find_similar_keys(key, tried):
        text = f"select nodes by the label {right} instead of {key}"
        change = _with_selector(_rename_key(key, right))
        yield Fix(FixKind.CORRECT_SELECTOR, (key, right), text, "author", on_pod(pod, change), CORRECT)
    if find_missing_host_with_data(tried.trial, key, wanted.values):
        return  # its files were there
    weakens, price = describe_loss(key, value)
    if wanted.found is not None:
        text = f"select nodes with {key}={wanted.found} instead of {value}"
        change = _with_selector(lambda selector: {**selector, key: wanted.found or ""})
        target, edits = (key, wanted.found), on_pod(pod, change)
        if is_misspelt(key, value, wanted.found, tried.cycle.view.nodes.label(key).values):
            yield Fix(FixKind.CORRECT_SELECTOR, target, text, "author", edits, CORRECT)
        else:
            cost, where = OTHER_HOST if key == HOSTNAME else OTHER, f"{key}={wanted.found}"
            yield Fix(FixKind.OTHER_SELECTOR, target, text, "author", edits, cost, weakens, (), key, where, price)
    yield from label_node(tried, key, value)
    change = _with_selector(lambda selector: {k: v for k, v in selector.items() if k != key})
    text = f"do not select nodes by {key}={value}"
    yield Fix(FixKind.DROP_SELECTOR, key, text, "author", on_pod(pod, change), DROP, weakens, price=price)


def describe_loss(key: str, value: str) -> tuple[str, Price | None]:
    """Return what is given up if nodes need not have the label, and its price."""
    if value in PLATFORMS.get(RENAMED.get(key, key), ()):
        return f"its image would run on nodes that are not {value}: it must be built for those, too", Price.LOSS
    return ANYWHERE, None


def _with_selector(change: Callable[[dict[str, str]], dict[str, str]]) -> Callable[[Pod], Pod]:
    return lambda pod: replace(pod, spec=replace(pod.spec, node_selector=change(pod.spec.node_selector)))


def _rename_key(key: str, right: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """Return a change that renames a key of a selector."""
    return lambda selector: {right if k == key else k: v for k, v in selector.items()}


def find_similar_keys(key: str, tried: TriedNode) -> list[str]:
    """Return node labels that the key probably means: its stable form, another case or prefix, or a typo."""
    view = tried.trial.scheduler.view
    known = view.memo("labels of nodes", lambda: _keys(node.metadata.labels for node in view.nodes.objects))
    if key in known:
        return []
    stable = [new for old, new in RENAMED.items() if key in (old, new)] + [o for o, n in RENAMED.items() if n == key]
    same = [label for label in known if label.lower() == key.lower() or _name(label) == _name(key)]
    near = near_words(key, known, 0.8)
    return list(dict.fromkeys(label for label in (*stable, *same, *near) if label in known))


def iter_other_topologies(key: str, tried: TriedNode) -> Iterator[tuple[str, Price | None]]:
    """Yield topology keys to use instead of one that no node has, with the price of each."""
    near = find_similar_keys(key, tried)
    yield from ((right, None) for right in near)
    labels = tried.cycle.view.nodes.label
    if not near and not labels(key).present.any():
        yield from (
            (topology, Price.WISH) for topology in TOPOLOGIES if topology != key and labels(topology).present.any()
        )


def _keys(all_labels: Iterable[dict[str, str]]) -> dict[str, None]:
    return dict.fromkeys(key for keys in dict.fromkeys(map(tuple, all_labels)) for key in keys)


def _name(key: str) -> str:
    return key.rpartition("/")[2].lower()


def is_misspelt(key: str, wrong: str, right: str, known: Collection[str]) -> bool:
    """Return whether a label's value that no node has probably means the right value."""
    values = PLATFORMS.get(RENAMED.get(key, key))
    if values is not None and (wrong in values or wrong.lower() in SYNONYMS):
        return SYNONYMS.get(wrong.lower()) == right
    return is_typo(wrong, right, known)


def is_typo(wrong: str, right: str, known: Collection[str]) -> bool:
    """Return whether the wrong word, which is unknown, probably means the right word and no other.

    >>> is_typo("genral", "general", ["general", "gpu"]), is_typo("zone-d", "zone-c", ["zone-c"])
    (True, False)
    >>> is_typo("web1", "web-a", ["web-a", "web-b"])
    False
    """
    if wrong in known:
        return False
    near = near_words(wrong, known)
    likeness = {word: SequenceMatcher(None, wrong, word).ratio() for word in near}
    return right in near and all(likeness[right] > likeness[word] for word in near if word != right)


def near_words(wrong: str, known: Collection[str], cutoff: float = 0.7) -> list[str]:
    """Return the words that are probably meant: in another case, with two letters swapped or few others, or in full.

    A word that differs in its number alone is another one.

    >>> near_words("wbe", ["web", "api"]), near_words("SSD", ["ssd", "hdd"]), near_words("a", ["b", "ab"])
    (['web'], ['ssd'], [])
    >>> near_words("w99", ["w9"]), near_words("zone-d", ["zone-a", "zone-b"])
    ([], [])
    >>> near_words("prod", ["production", "test"]), near_words("gpu", ["gpu-a100"])
    (['production'], [])
    """
    swapped = {f"{wrong[:i]}{wrong[i + 1]}{wrong[i]}{wrong[i + 2 :]}" for i in range(len(wrong) - 1)}
    sure = [word for word in known if word.lower() == wrong.lower() or (len(wrong) > 2 and word in swapped)]
    sure += [word for word in known if word not in sure and (_is_short_for(wrong, word) or _is_short_for(word, wrong))]
    close = get_close_matches(wrong, known, n=2, cutoff=cutoff)
    return list(dict.fromkeys([*sure, *(word for word in close if not _is_another(wrong, word))]))


def _is_short_for(short: str, word: str) -> bool:
    """Return whether the first is the beginning of the second, cut off between letters, as prod is of production."""
    return len(short) > 2 and word.startswith(short) and word[len(short) :].isalpha()


def _is_another(one: str, other: str) -> bool:
    """Whether two words differ in the number, or the letter, by which they are told apart."""
    return bool(NUMBERED.search(one) and NUMBERED.search(other)) and NUMBERED.sub("", one) == NUMBERED.sub("", other)


def label_node(tried: TriedNode, key: str, value: str) -> Iterator[Fix]:
    """Yield the fix that gives the node a role label that another node has.

    Another label tells how a node is: given to one that is otherwise it would lie.
    """
    nodes = tried.cycle.view.nodes
    node = nodes.objects[tried.at]
    if value not in OF_ROLES or key in node.metadata.labels or value not in nodes.label(key).values:
        return
    name = node.metadata.name
    yield Fix(
        FixKind.LABEL_NODE,
        (name, key, value),
        f"label node {name} with {key}={value}",
        "operator",
        on_node(node, lambda obj: _with_labels(obj, {**obj.metadata.labels, key: value})),
        LABEL,
        commands=(kubectl.render_command("label", "node", name, f"{key}={value}"),),
        variant_of=(key, value),
        where=name,
    )


def unlabel_node(tried: TriedNode, key: str) -> Iterator[Fix]:
    """Yield the fix that removes a role label from the node."""
    node = tried.cycle.view.nodes.objects[tried.at]
    name = node.metadata.name
    if node.metadata.labels[key] not in OF_ROLES:
        return
    yield Fix(
        FixKind.UNLABEL_NODE,
        (name, key),
        f"remove the label {key}={node.metadata.labels[key]} from node {name}",
        "operator",
        on_node(node, lambda obj: _with_labels(obj, {k: v for k, v in obj.metadata.labels.items() if k != key})),
        LABEL,
        f"node {name} is no longer one with {key}={node.metadata.labels[key]}",
        commands=(kubectl.render_command("label", "node", name, f"{key}-"),),
        variant_of=key,
        where=name,
    )


def _with_labels(node: Node, labels: dict[str, str]) -> Node:
    return replace(node, metadata=replace(node.metadata, labels=labels))


CORRECT_CLASS, OTHER_CLASS = 15, 70


def find_selecting_class(pod: Pod, key: str, tried: TriedNode) -> RuntimeClass | None:
    """Return the pod's RuntimeClass if its node selector requires this label, else None."""
    runtime_class = find_runtime_class(pod, tried.cycle.view.cluster)
    if runtime_class is None or runtime_class.scheduling is None or key not in runtime_class.scheduling.node_selector:
        return None
    return runtime_class


def fix_runtime_class(tried: TriedNode, wanted: Wanted) -> Iterator[Fix]:
    """Yield fixes for a node label that the pod's RuntimeClass requires and the node lacks."""
    pod, key, value = tried.trial.pod, wanted.key, wanted.values[0]
    runtime_class = find_selecting_class(pod, key, tried)
    if runtime_class is None:
        return
    for similar_key in find_similar_keys(key, tried):
        yield _correct_selector(pod, runtime_class, {key: None, similar_key: value})
    if wanted.found and is_misspelt(key, value, wanted.found, tried.cycle.view.nodes.label(key).values):
        yield _correct_selector(pod, runtime_class, {key: wanted.found})
    for other in tried.cycle.view.cluster.runtime_classes:
        if other.metadata.name != runtime_class.metadata.name:
            yield _use_other_class(pod, runtime_class, other)


def _correct_selector(pod: Pod, runtime_class: RuntimeClass, labels: dict[str, str | None]) -> Fix:
    """Build the fix that changes labels in the RuntimeClass's node selector. None as a value removes the label."""
    name, scheduling = runtime_class.metadata.name, runtime_class.scheduling or RuntimeClassScheduling()
    selector = _merge_labels(scheduling.node_selector, labels)

    def change(known: RuntimeClass) -> RuntimeClass:
        return replace(known, scheduling=replace(scheduling, node_selector=selector))

    selector_text = ", ".join(f"{key}={value}" for key, value in selector.items())
    key = ObjectKey.of(runtime_class)
    command = kubectl.render_patch(key, {"scheduling": {"nodeSelector": labels}})
    return Fix(
        FixKind.CORRECT_RUNTIME_CLASS,
        (name, tuple(labels.items())),
        f"let RuntimeClass {name} select nodes with {selector_text}",
        "operator",
        (ObjectEdit(key, change), *on_pod(pod, _change_selector(labels))),
        CORRECT_CLASS,
        commands=(command,),
    )


def _use_other_class(pod: Pod, runtime_class: RuntimeClass, other: RuntimeClass) -> Fix:
    """Build the fix that gives the pod another RuntimeClass and removes what the current class added to it."""
    old_name, new_name = runtime_class.metadata.name, other.metadata.name
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()

    def change(known: Pod) -> Pod:
        spec = known.spec
        selector = {key: value for key, value in spec.node_selector.items() if key not in scheduling.node_selector}
        added = frozenset(scheduling.tolerations) - _get_tolerations(other)
        return replace(
            known,
            spec=replace(
                spec,
                runtime_class_name=new_name,
                node_selector={**selector, **(other.scheduling.node_selector if other.scheduling else {})},
                tolerations=tuple(toleration for toleration in spec.tolerations if toleration not in added),
                overhead=other.overhead.pod_fixed if other.overhead else {},
            ),
        )

    return Fix(
        FixKind.OTHER_RUNTIME_CLASS,
        (old_name, new_name),
        f"use RuntimeClass {new_name} instead of {old_name}",
        "author",
        on_pod(pod, change),
        OTHER_CLASS,
        f"its containers are isolated as RuntimeClass {new_name} does it, not as {old_name} does",
        variant_of=old_name,
        where=f"RuntimeClass {new_name}",
    )


def _get_tolerations(runtime_class: RuntimeClass) -> frozenset[Toleration]:
    """Return the tolerations that the RuntimeClass adds to its pods."""
    return frozenset(runtime_class.scheduling.tolerations) if runtime_class.scheduling else frozenset()


def _merge_labels(selector: dict[str, str], labels: dict[str, str | None]) -> dict[str, str]:
    """Return the selector with these labels set, or removed if the value is None."""
    merged = {**selector, **labels}
    return {key: value for key, value in merged.items() if value is not None}


def _change_selector(labels: dict[str, str | None]) -> Callable[[Pod], Pod]:
    """Return a change of a pod that sets or removes labels in its nodeSelector."""

    def change(pod: Pod) -> Pod:
        return replace(pod, spec=replace(pod.spec, node_selector=_merge_labels(pod.spec.node_selector, labels)))

    return change
