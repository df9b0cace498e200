"""Labels of nodes: correct what the pod asks for, ask for less, or give a node the label."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.objects import Node, Pod
from kschedctl.scheduler.framework.facts import Wanted
from kschedctl.studies.remedies import kubectl
from kschedctl.studies.remedies.changes import Fix, on_node, on_pod
from kschedctl.studies.remedies.targets import Site

CORRECT, LABEL, DROP = 10, 30, 60
RENAMED = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Old label -> new. Reference: Well-Known Labels, Annotations and Taints, k8s.io/docs."""
OWN_NAMES = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "topology.kubernetes.io/")
"""Labels that tell how a node is: nobody gives it another."""
ANYWHERE = "the pod may run on nodes that it was kept from"


def unmet_selector(site: Site, wanted: Wanted) -> Iterator[Fix]:
    """One label of the nodeSelector: corrected, another value, given to the node, or not asked for."""
    pod, key, value = site.trial.pod, wanted.key, wanted.values[0]
    for right in near_keys(key, site):
        text = f"select nodes by the label {right} instead of {key}"
        change = _with_selector(_renamed(key, right))
        yield Fix("CorrectSelector", (key, right), text, "author", on_pod(pod, change), CORRECT)
    if wanted.found is not None:
        text = f"select nodes with {key}={wanted.found} instead of {value}"
        change = _with_selector(lambda found: {**found, key: wanted.found or ""})
        near = is_typo(value, wanted.found, site.cycle.view.nodes.label(key).values)
        kind, cost = ("CorrectSelector", CORRECT) if near else ("OtherSelector", DROP - 1)
        weakens = "" if near else ANYWHERE
        yield Fix(kind, (key, wanted.found), text, "author", on_pod(pod, change), cost, weakens)
    yield from label_node(site, key, value)
    change = _with_selector(lambda found: {k: v for k, v in found.items() if k != key})
    text = f"do not select nodes by {key}={value}"
    yield Fix("DropSelector", key, text, "author", on_pod(pod, change), DROP, ANYWHERE)


def _with_selector(change: Callable[[dict[str, str]], dict[str, str]]) -> Callable[[Pod], Pod]:
    return lambda pod: replace(pod, spec=replace(pod.spec, node_selector=change(pod.spec.node_selector)))


def _renamed(key: str, right: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda found: {right if k == key else k: v for k, v in found.items()}


def near_keys(key: str, site: Site) -> list[str]:
    """The labels that nodes have and that are probably meant: a stable one, another case or prefix, a typo."""
    view = site.trial.scheduler.view
    known = view.memo("labels of nodes", lambda: _keys(node.metadata.labels for node in view.nodes.objects))
    if key in known:
        return []
    stable = [new for old, new in RENAMED.items() if key in (old, new)] + [o for o, n in RENAMED.items() if n == key]
    same = [each for each in known if each.lower() == key.lower() or _name(each) == _name(key)]
    near = near_words(key, known, 0.8)
    return list(dict.fromkeys(each for each in (*stable, *same, *near) if each in known))


def _keys(all_labels: Iterable[dict[str, str]]) -> dict[str, None]:
    return dict.fromkeys(key for keys in dict.fromkeys(map(tuple, all_labels)) for key in keys)


def _name(key: str) -> str:
    return key.rpartition("/")[2].lower()


def is_typo(wrong: str, right: str, known: Collection[str]) -> bool:
    """Whether one value is probably meant where another is written, which no node has."""
    if wrong in known:
        return False
    return right in near_words(wrong, [right])


def near_words(wrong: str, known: Collection[str], cutoff: float = 0.7) -> list[str]:
    """The words that are probably meant: another case, two letters the wrong way round, or few others.

    >>> near_words("wbe", ["web", "api"]), near_words("SSD", ["ssd", "hdd"]), near_words("a", ["b", "ab"])
    (['web'], ['ssd'], [])
    """
    swapped = {f"{wrong[:i]}{wrong[i + 1]}{wrong[i]}{wrong[i + 2 :]}" for i in range(len(wrong) - 1)}
    sure = [each for each in known if each.lower() == wrong.lower() or (len(wrong) > 2 and each in swapped)]
    return list(dict.fromkeys([*sure, *get_close_matches(wrong, known, n=2, cutoff=cutoff)]))


def is_own_name(key: str) -> bool:
    """Whether the label tells how a node is, so that nobody gives it another."""
    return key.startswith(OWN_NAMES) or key in RENAMED


def label_node(site: Site, key: str, value: str) -> Iterator[Fix]:
    """The node of the site with a label that it lacks, or that has another value there."""
    if is_own_name(key):
        return
    node = site.cycle.view.nodes.objects[site.at]
    name = node.metadata.name
    before = node.metadata.labels.get(key)
    instead = f" instead of {before}" if before is not None else ""
    yield Fix(
        "LabelNode",
        (name, key, value),
        f"label node {name} with {key}={value}{instead}",
        "operator",
        on_node(node, lambda found: _with_labels(found, {**found.metadata.labels, key: value})),
        LABEL,
        f"node {name} is no longer one with {key}={before}" if before is not None else "",
        commands=(kubectl.run("label", "node", name, f"{key}={value}", *["--overwrite"] * (before is not None)),),
        variant_of=(key, value),
        where=name,
    )


def unlabel_node(site: Site, key: str) -> Iterator[Fix]:
    """The node of the site without a label."""
    if is_own_name(key):
        return
    node = site.cycle.view.nodes.objects[site.at]
    name = node.metadata.name
    yield Fix(
        "UnlabelNode",
        (name, key),
        f"take the label {key}={node.metadata.labels[key]} off node {name}",
        "operator",
        on_node(node, lambda found: _with_labels(found, {k: v for k, v in found.metadata.labels.items() if k != key})),
        LABEL,
        f"node {name} is no longer one with {key}={node.metadata.labels[key]}",
        commands=(kubectl.run("label", "node", name, f"{key}-"),),
        variant_of=key,
        where=name,
    )


def _with_labels(node: Node, labels: dict[str, str]) -> Node:
    return replace(node, metadata=replace(node.metadata, labels=labels))
