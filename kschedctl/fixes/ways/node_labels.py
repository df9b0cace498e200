"""Fixes for node labels: correct the nodeSelector or RuntimeClass, require less, or label a node.

Admission puts the RuntimeClass's node selector and overhead back into every pod that is created, so changes of the
pod's own selector do not remove them. Reference: Runtime Class, "Scheduling" (k8s.io/docs).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher, get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import Node, Pod, RuntimeClass, RuntimeClassScheduling
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, build_node_edits, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.guesses import PLATFORMS
from kschedctl.fixes.trial.trial_node import TrialNode, find_missing_host_with_files
from kschedctl.fixes.trial.trials import find_runtime_class
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework.facts import Wanted
from kschedctl.snapshot.nodes import HOSTNAME

CORRECT, LABEL, WIDEN, OTHER, DROP, OTHER_HOST = 10, 30, 50, 59, 60, 130
"""The costs of the fixes. Another host costs more than dropping the label, since it serves no wish of the author."""
STABLE_LABELS = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old label -> new. Reference: Well-Known Labels, Annotations and Taints, k8s.io/docs."""
SYNONYMS = {"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64"}
TOPOLOGIES = ("topology.kubernetes.io/zone", HOSTNAME)
ROLE_VALUES = ("", "true", "yes", "enabled")
"""Values of labels that give nodes a role. Labels with other values describe a node."""
KEY_SIMILARITY = 0.8
"""The minimum similarity (0 to 1) at which a label key stands for an unknown key. Keys are longer than values."""
MIN_LENGTH = 3
"""Minimum length of a word that may be an abbreviation or have swapped letters."""
ANYWHERE = "the pod may run on nodes that its nodeSelector or node affinity excludes now"
NUMBER_SUFFIX = re.compile(r"(?:[0-9]+|(?<=[-_.])[a-z0-9]{1,2})$", re.IGNORECASE)
"""The ends of names that tell things of one kind apart, as in zone-a and node12."""


def iter_selector_fixes(trial_node: TrialNode, unmet: Wanted) -> Iterator[Fix]:
    """Yield fixes for a nodeSelector label that the node lacks.

    They correct the label's key, select the node's value, label the node, or drop the label. Only corrections are
    proposed if the label names a missing host that has files of the pod.
    """
    pod = trial_node.trial.pod
    key = unmet.key
    value = unmet.values[0]
    for similar_key in find_similar_keys(key, trial_node):
        text = f"use the label {similar_key} instead of {key} in nodeSelector"
        change = _build_selector_change(_build_key_change(key, similar_key))
        yield Fix(
            kind=FixKind.CORRECT_SELECTOR,
            target=(key, similar_key),
            text=text,
            by="author",
            edits=build_pod_edits(pod, change),
            cost=CORRECT,
        )
    if find_missing_host_with_files(trial_node.trial, key, unmet.values):
        return  # the pod's files were on that host
    if unmet.found is not None:
        yield _build_fix_adopting_node_value(trial_node, key, value, unmet.found)
    yield from iter_role_label_fixes(trial_node, key, value)

    weakens, price = describe_label_loss(key, value)
    change = _build_selector_change(lambda selector: {k: v for k, v in selector.items() if k != key})
    text = f"remove nodeSelector {key}={value}"
    yield Fix(
        kind=FixKind.DROP_SELECTOR,
        target=key,
        text=text,
        by="author",
        edits=build_pod_edits(pod, change),
        cost=DROP,
        weakens=weakens,
        price=price,
    )


def _build_fix_adopting_node_value(trial_node: TrialNode, key: str, value: str, node_value: str) -> Fix:
    """Build the fix that changes the pod's nodeSelector for `key` from `value` to the value of the tried node.

    The fix is a correction, which gives up nothing, if `value` is misspelled.
    """
    text = f"set nodeSelector {key}={node_value} instead of {value}"
    change = _build_selector_change(lambda selector: {**selector, key: node_value})
    target = (key, node_value)
    edits = build_pod_edits(trial_node.trial.pod, change)
    if is_misspelled(key, value, node_value, trial_node.cycle.view.nodes.label(key).values):
        return Fix(kind=FixKind.CORRECT_SELECTOR, target=target, text=text, by="author", edits=edits, cost=CORRECT)
    weakens, price = describe_label_loss(key, value)
    return Fix(
        kind=FixKind.OTHER_SELECTOR,
        target=target,
        text=text,
        by="author",
        edits=edits,
        cost=OTHER_HOST if key == HOSTNAME else OTHER,
        weakens=weakens,
        variant_of=key,
        where=f"{key}={node_value}",
        price=price,
    )


def describe_label_loss(key: str, value: str) -> tuple[str, Price | None]:
    """Describe what the pod gives up if nodes need not have the label, and return the price of this loss.

    The price is None, which stands for the fix's usual price, unless the label names the platform of the pod's image.
    """
    if value in PLATFORMS.get(STABLE_LABELS.get(key, key), ()):
        return f"its image could run on nodes that are not {value}: it must be built for those as well", Price.LOSS
    return ANYWHERE, None


def _build_selector_change(change: Callable[[dict[str, str]], dict[str, str]]) -> Callable[[Pod], Pod]:
    """Return a pod change that applies `change` to the nodeSelector."""
    return lambda pod: replace(pod, spec=replace(pod.spec, node_selector=change(pod.spec.node_selector)))


def _build_key_change(old_key: str, new_key: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """Return a nodeSelector change that renames a key."""
    return lambda selector: {new_key if k == old_key else k: v for k, v in selector.items()}


def find_similar_keys(key: str, trial_node: TrialNode) -> list[str]:
    """Return the keys of node labels that may have been meant by a key that no node has, or [] if a node has it.

    A similar key is a stable or old form, differs in case or prefix, or looks like a typo.
    """
    view = trial_node.trial.scheduler.view
    known_keys = view.memo(
        "labels of nodes", lambda: _collect_keys(node.metadata.labels for node in view.nodes.objects)
    )
    if key in known_keys:
        return []
    stable_forms = [new for old, new in STABLE_LABELS.items() if key in (old, new)]
    old_forms = [old for old, new in STABLE_LABELS.items() if new == key]
    same_names = [
        label for label in known_keys if label.lower() == key.lower() or _strip_prefix(label) == _strip_prefix(key)
    ]
    similar_keys = find_similar_words(key, known_keys, KEY_SIMILARITY)
    candidates = dict.fromkeys((*stable_forms, *old_forms, *same_names, *similar_keys))
    return [label for label in candidates if label in known_keys]


def iter_other_topologies(key: str, trial_node: TrialNode) -> Iterator[tuple[str, Price | None]]:
    """Yield topology keys to use instead of a key that no node has, each with the price of the change.

    Similar keys have the price None, which stands for the usual price. If there are none, the usual topologies are
    yielded at the price of a wish. Nothing is yielded if a node has the key.
    """
    similar_keys = find_similar_keys(key, trial_node)
    for similar_key in similar_keys:
        yield similar_key, None
    nodes = trial_node.cycle.view.nodes
    if similar_keys or nodes.label(key).present.any():
        return
    for topology in TOPOLOGIES:
        if topology != key and nodes.label(topology).present.any():
            yield topology, Price.WISH


def _collect_keys(all_labels: Iterable[dict[str, str]]) -> dict[str, None]:
    """Return the distinct keys of all labels, in order of appearance."""
    distinct_key_lists = dict.fromkeys(map(tuple, all_labels))  # many nodes have the same keys
    return dict.fromkeys(key for keys in distinct_key_lists for key in keys)


def _strip_prefix(key: str) -> str:
    """Return the label key without its prefix, such as example.com/, in lower case."""
    return key.rpartition("/")[2].lower()


def is_misspelled(key: str, value: str, candidate: str, known_values: Collection[str]) -> bool:
    """Return whether the value is probably a misspelling of `candidate`, the value of a node's label.

    `key` is the label's key. An operating system or architecture is misspelled only if it is a known synonym of the
    candidate.
    """
    if _is_platform(key, value):
        return SYNONYMS.get(value.lower()) == candidate
    return is_typo(value, candidate, known_values)


def _is_platform(key: str, value: str) -> bool:
    """Return whether the value of a label is an operating system or architecture, or a synonym of one."""
    platforms_of_label = PLATFORMS.get(STABLE_LABELS.get(key, key))
    if platforms_of_label is None:
        return False
    return value in platforms_of_label or value.lower() in SYNONYMS


def is_typo(unknown_word: str, candidate: str, known_words: Collection[str]) -> bool:
    """Return whether the unknown word is probably a typo of the candidate.

    The candidate has to be similar to the word, and more similar than any other known word.

    >>> is_typo("genral", "general", ["general", "gpu"]), is_typo("zone-d", "zone-c", ["zone-c"])
    (True, False)
    >>> is_typo("web1", "web-a", ["web-a", "web-b"])
    False
    """
    if unknown_word in known_words:
        return False
    similar_words = find_similar_words(unknown_word, known_words)
    if candidate not in similar_words:
        return False
    similarity = {word: SequenceMatcher(None, unknown_word, word).ratio() for word in similar_words}
    return all(similarity[candidate] > similarity[word] for word in similar_words if word != candidate)


def find_similar_words(unknown_word: str, known_words: Collection[str], cutoff: float = 0.7) -> list[str]:
    """Return the known words that `unknown_word` may stand for, likeliest first.

    The word may differ in case, be an abbreviation, or be mistyped in another way. If it has at least `MIN_LENGTH`
    letters, two of them may be swapped. Words that differ only in their number are not similar. `cutoff` is the least
    similarity of a mistyped word, as difflib computes it.

    >>> find_similar_words("wbe", ["web", "api"]), find_similar_words("SSD", ["ssd", "hdd"])
    (['web'], ['ssd'])
    >>> find_similar_words("a", ["b", "ab"])
    []
    >>> find_similar_words("w99", ["w9"]), find_similar_words("zone-d", ["zone-a", "zone-b"])
    ([], [])
    >>> find_similar_words("prod", ["production", "test"]), find_similar_words("gpu", ["gpu-a100"])
    (['production'], [])
    """
    words_with_swapped_letters: set[str] = set()
    if len(unknown_word) >= MIN_LENGTH:
        words_with_swapped_letters = {
            f"{unknown_word[:place]}{unknown_word[place + 1]}{unknown_word[place]}{unknown_word[place + 2 :]}"
            for place in range(len(unknown_word) - 1)
        }
    similar_words = [
        word for word in known_words if word.lower() == unknown_word.lower() or word in words_with_swapped_letters
    ]
    similar_words += [
        word for word in known_words if _is_short_for(unknown_word, word) or _is_short_for(word, unknown_word)
    ]
    close_words = get_close_matches(unknown_word, known_words, n=2, cutoff=cutoff)
    similar_words += [word for word in close_words if not _differ_only_in_number(unknown_word, word)]
    return list(dict.fromkeys(similar_words))


def _is_short_for(short: str, word: str) -> bool:
    """Return whether `short` is an abbreviation of the word, as prod is of production."""
    return len(short) >= MIN_LENGTH and word.startswith(short) and word[len(short) :].isalpha()


def _differ_only_in_number(first: str, second: str) -> bool:
    """Return whether two names differ only in the number or letter at their end, as zone-a and zone-b do."""
    if not NUMBER_SUFFIX.search(first) or not NUMBER_SUFFIX.search(second):
        return False
    return NUMBER_SUFFIX.sub("", first) == NUMBER_SUFFIX.sub("", second)


def iter_role_label_fixes(trial_node: TrialNode, key: str, value: str) -> Iterator[Fix]:
    """Yield the fix that adds the label to the node, if the value marks a role and another node has the label.

    Values that are facts about one node, such as its zone, get no fix, because they would be wrong on another node.
    There is no fix either if the node has the label with another value.
    """
    nodes = trial_node.cycle.view.nodes
    node = nodes.objects[trial_node.known_row]
    marks_role = value in ROLE_VALUES
    if not marks_role or key in node.metadata.labels or value not in nodes.label(key).values:
        return
    name = node.metadata.name
    yield Fix(
        kind=FixKind.LABEL_NODE,
        target=(name, key, value),
        text=f"label node {name} with {key}={value}",
        by="operator",
        edits=build_node_edits(node, lambda obj: _set_labels(obj, {**obj.metadata.labels, key: value})),
        cost=LABEL,
        commands=(kubectl.render_command("label", "node", name, f"{key}={value}"),),
        variant_of=(key, value),
        where=name,
    )


def build_role_label_removal_fix(trial_node: TrialNode, key: str) -> Fix | None:
    """Build the fix that removes the label from the node, if its value only marks a role, as "" and "true" do.

    Return None for other values, because they describe the node.
    """
    node = trial_node.cycle.view.nodes.objects[trial_node.known_row]
    name = node.metadata.name
    value = node.metadata.labels[key]
    marks_role = value in ROLE_VALUES
    if not marks_role:
        return None
    return Fix(
        kind=FixKind.UNLABEL_NODE,
        target=(name, key),
        text=f"remove the label {key}={value} from node {name}",
        by="operator",
        edits=build_node_edits(
            node, lambda obj: _set_labels(obj, {k: v for k, v in obj.metadata.labels.items() if k != key})
        ),
        cost=LABEL,
        weakens=f"node {name} loses the label {key}={value}",
        commands=(kubectl.render_command("label", "node", name, f"{key}-"),),
        variant_of=key,
        where=name,
    )


def _set_labels(node: Node, labels: dict[str, str]) -> Node:
    """Return the node with all its labels replaced by `labels`."""
    return replace(node, metadata=replace(node.metadata, labels=labels))


CORRECT_CLASS, OTHER_CLASS = 15, 70
"""The costs of correcting a RuntimeClass and of using another one."""


def find_runtime_class_selecting_label(pod: Pod, key: str, trial_node: TrialNode) -> RuntimeClass | None:
    """Return the pod's RuntimeClass if its node selector contains the label `key`, otherwise None."""
    runtime_class = find_runtime_class(pod, trial_node.cycle.view.cluster)
    if runtime_class is None or runtime_class.scheduling is None or key not in runtime_class.scheduling.node_selector:
        return None
    return runtime_class


def iter_runtime_class_fixes(trial_node: TrialNode, unmet: Wanted) -> Iterator[Fix]:
    """Yield fixes for a label that the pod's RuntimeClass requires and the node lacks.

    They correct the class's node selector if the label is misspelled, or give the pod another RuntimeClass. Nothing is
    yielded if the pod's RuntimeClass does not require the label.
    """
    pod = trial_node.trial.pod
    key = unmet.key
    value = unmet.values[0]
    runtime_class = find_runtime_class_selecting_label(pod, key, trial_node)
    if runtime_class is None:
        return
    for similar_key in find_similar_keys(key, trial_node):
        # None removes the misspelled label
        yield _build_runtime_class_selector_fix(pod, runtime_class, {key: None, similar_key: value})
    if unmet.found and is_misspelled(key, value, unmet.found, trial_node.cycle.view.nodes.label(key).values):
        yield _build_runtime_class_selector_fix(pod, runtime_class, {key: unmet.found})
    for other in trial_node.cycle.view.cluster.runtime_classes:
        if other.metadata.name != runtime_class.metadata.name:
            yield _build_runtime_class_replacement_fix(pod, runtime_class, other)


def _build_runtime_class_selector_fix(pod: Pod, runtime_class: RuntimeClass, labels: dict[str, str | None]) -> Fix:
    """Build the fix that sets these labels in the RuntimeClass's node selector. A value of None removes the label.

    The pod's nodeSelector, into which admission copied the class's labels, is changed in the same way.
    """
    name = runtime_class.metadata.name
    scheduling = runtime_class.scheduling or RuntimeClassScheduling()
    selector = _merge_labels(scheduling.node_selector, labels)

    def change(current: RuntimeClass) -> RuntimeClass:
        """Return the RuntimeClass with the new selector."""
        return replace(current, scheduling=replace(scheduling, node_selector=selector))

    selector_text = ", ".join(f"{key}={value}" for key, value in selector.items())
    key = ObjectKey.of(runtime_class)
    command = kubectl.render_patch(key, {"scheduling": {"nodeSelector": labels}})
    return Fix(
        kind=FixKind.CORRECT_RUNTIME_CLASS,
        target=(name, tuple(labels.items())),
        text=f"let RuntimeClass {name} select nodes with {selector_text}",
        by="operator",
        edits=(ObjectEdit(key, change), *build_pod_edits(pod, _build_merged_selector_change(labels))),
        cost=CORRECT_CLASS,
        commands=(command,),
    )


def _build_runtime_class_replacement_fix(pod: Pod, old_class: RuntimeClass, new_class: RuntimeClass) -> Fix:
    """Build the fix that gives the pod another RuntimeClass.

    The labels, tolerations and overhead that admission added for the old class are replaced by those of the new class.
    """
    old_name, new_name = old_class.metadata.name, new_class.metadata.name
    scheduling = old_class.scheduling or RuntimeClassScheduling()

    def change(current: Pod) -> Pod:
        """Return the pod with the new class."""
        spec = current.spec
        new_scheduling = new_class.scheduling or RuntimeClassScheduling()
        own_selector = {key: value for key, value in spec.node_selector.items() if key not in scheduling.node_selector}
        old_tolerations = frozenset(scheduling.tolerations) - frozenset(new_scheduling.tolerations)
        return replace(
            current,
            spec=replace(
                spec,
                runtime_class_name=new_name,
                node_selector={**own_selector, **new_scheduling.node_selector},
                tolerations=tuple(toleration for toleration in spec.tolerations if toleration not in old_tolerations),
                overhead=new_class.overhead.pod_fixed if new_class.overhead else {},
            ),
        )

    return Fix(
        kind=FixKind.OTHER_RUNTIME_CLASS,
        target=(old_name, new_name),
        text=f"use RuntimeClass {new_name} instead of {old_name}",
        by="author",
        edits=build_pod_edits(pod, change),
        cost=OTHER_CLASS,
        weakens=f"its containers run with the isolation of RuntimeClass {new_name} instead of {old_name}",
        variant_of=old_name,
        where=f"RuntimeClass {new_name}",
    )


def _merge_labels(selector: dict[str, str], labels: dict[str, str | None]) -> dict[str, str]:
    """Return the selector with these labels set. A value of None removes the label."""
    merged = {**selector, **labels}
    return {key: value for key, value in merged.items() if value is not None}


def _build_merged_selector_change(labels: dict[str, str | None]) -> Callable[[Pod], Pod]:
    """Return a function that sets these labels in a pod's nodeSelector. A value of None removes the label."""

    def change(pod: Pod) -> Pod:
        """Return the pod with the changed nodeSelector."""
        return replace(pod, spec=replace(pod.spec, node_selector=_merge_labels(pod.spec.node_selector, labels)))

    return change
