"""Text for the terminal: unsafe characters escaped, credentials removed from URLs, FitErrors made readable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    r"""Return the text with escapes for all characters that a terminal would interpret or not show.

    They include all control, format, surrogate, private and unassigned characters of Unicode, and all separators but
    the space. Direction overrides are format characters.

    >>> printable("web\x1b[2J-\u202egnp")
    'web\\x1b[2J-\\u202egnp'
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else escape_character(character) for character in text)


def escape_character(character: str) -> str:
    r"""Return a character as Python escapes it: `\\n`, `\\x1b`, `\\u202e`."""
    return character.encode("unicode_escape").decode("ascii")


_USER = re.compile(r"://[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?#]*)[?#]\S*")


def strip_credentials(text: str) -> str:
    """Remove user and password from the URLs in a text.

    >>> strip_credentials("https://me:hunter2@example.com/path: not found")
    'https://example.com/path: not found'
    """
    return _USER.sub("://", text)


def strip_url(text: str) -> str:
    """Remove user, query and fragment from the URLs in a text.

    >>> strip_url("https://me:hunter2@extender.example/path?token=abc")
    'https://extender.example/path'
    """
    return _QUERY.sub(r"\1", strip_credentials(text))


_MESSAGE = re.compile(r"0/(\d+) nodes are available: (.*)", re.DOTALL)
_PREEMPTION = re.compile(
    r"(?:\.? (?:no new claims to deallocate,? ?|still not schedulable,? ?"
    r"|de(?:alloca|le)tion of ResourceClaim completed,? ?)?|\. not found,? ?)(?:preemption: .*)?$",
    re.DOTALL,
)
_PREEMPTION_REASONS = re.compile(r".*preemption: 0/\d+ nodes are available: (.*?)\.?", re.DOTALL)
_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)
_BETWEEN = re.compile(r", (?=\d+ )")

_CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
REASON_WORDS = {
    "node(s) were unschedulable": ("is cordoned", "are cordoned"),
    "node(s) had untolerated taint(s)": (
        "has an untolerated taint",
        "have untolerated taints",
    ),
    "node(s) didn't match Pod's node affinity/selector": (
        "does not match its node affinity/selector",
        "do not match its node affinity/selector",
    ),
    "node(s) didn't have free ports for the requested pod ports": (
        "has another pod on its host port",
        "have another pod on its host port",
    ),
    "node(s) didn't match pod topology spread constraints": (
        "is ruled out by spread constraints",
        "are ruled out by spread constraints",
    ),
    "node(s) didn't match pod affinity rules": (
        "has no pod nearby that its affinity requires",
        "have no pod nearby that its affinity requires",
    ),
    "node(s) didn't match pod anti-affinity rules": (
        "has a pod nearby that its anti-affinity excludes",
        "have a pod nearby that its anti-affinity excludes",
    ),
    "node(s) didn't satisfy existing pods anti-affinity rules": (
        "has pods nearby with anti-affinity to it",
        "have pods nearby with anti-affinity to it",
    ),
    "node(s) didn't match PersistentVolume's node affinity": ("cannot access its volume", "cannot access its volume"),
    "node(s) had volume node affinity conflict": ("cannot access its volume", "cannot access its volume"),
    "Too many pods": ("is full of pods", "are full of pods"),
    "node(s) didn't match pod topology spread constraints (missing required label)": (
        "lacks the topology label of its spread constraint",
        "lack the topology label of its spread constraint",
    ),
    "node(s) didn't match scheduler-enforced node affinity": (
        "does not match the node affinity of its scheduler profile",
        "do not match the node affinity of its scheduler profile",
    ),
    "node(s) didn't match Pod's required features": (
        "does not declare the features it needs",
        "do not declare the features it needs",
    ),
    "node(s) didn't match the requested node name": (
        "is not the node in its spec.nodeName",
        "are not the node in its spec.nodeName",
    ),
    "node(s) exceed max volume count": ("cannot attach more volumes", "cannot attach more volumes"),
    "node(s) didn't find available persistent volumes to bind": (
        "has no volume for its claims",
        "have no volume for its claims",
    ),
    "node(s) did not have enough free storage": (
        "has too little storage for its volumes",
        "have too little storage for its volumes",
    ),
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": (
        "cannot be checked because its volume does not exist",
        "cannot be checked because its volume does not exist",
    ),
    "node(s) had no available disk": ("cannot use its disk, which is in use", "cannot use its disk, which is in use"),
    _CLAIM_IN_USE: (
        "is excluded because another pod uses its ReadWriteOncePod claim",
        "are excluded because another pod uses its ReadWriteOncePod claim",
    ),
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode": (
        "is excluded because another pod uses its ReadWriteOncePod claim",
        "are excluded because another pod uses its ReadWriteOncePod claim",
    ),
    "node(s) had no available volume zone": ("is outside its volume's zone", "are outside its volume's zone"),
    "cannot allocate all claims": ("cannot provide its devices", "cannot provide its devices"),
    "resourceclaim not available on the node": (
        "lacks the devices allocated to it",
        "lack the devices allocated to it",
    ),
    "node is filtered out by the prefilter result": ("is not a node it may run on", "are not nodes it may run on"),
    "invalid node topology data": ("has invalid topology data", "have invalid topology data"),
}
"""Upstream's reason -> the words for one node and for several nodes. They are about a single pod."""

_PLURAL_PRONOUNS = (
    (" its ", " their "),
    (" to it", " to them"),
    (" it may run", " they may run"),
    (" it needs", " they need"),
)
"""Pronoun for a single pod in `REASON_WORDS` -> the pronoun for several pods."""

REASON_PATTERNS = (
    (r"Insufficient (?P<resource>\S+)", "lacks {resource}", "lack {resource}"),
    (
        r"node\(s\) had untolerated taint \{(?P<key>[^:]*): (?P<value>.*)\}",
        "has the untolerated taint {key}{value}",
        "have the untolerated taint {key}{value}",
    ),
    (
        r"node\(s\) didn't satisfy plugin\(s\) \[NodeAffinity\]",
        "is not named by the pod",
        "are not named by the pod",
    ),
    (
        r"node\(s\) didn't satisfy plugin(?:\(s\))? \[?(?P<plugins>[^\]]*?)\]?(?: simultaneously)?",
        "is ruled out by {plugins}",
        "are ruled out by {plugins}",
    ),
    (
        r"(?P<driver>\S+) CSI driver is not installed on the node",
        "lacks the CSI driver {driver}",
        "lack the CSI driver {driver}",
    ),
    (
        r"node declared features check failed - unsatisfied requirements: (?P<features>.*)",
        "does not declare {features}",
        "do not declare {features}",
    ),
)
"""Pattern of upstream's reason -> the words for one node and for several nodes, with the pattern's groups."""

WHOLE_REASON_WORDS = {
    "pod affinity terms conflict": "its node affinity requires different nodes at once",
    "pod has unbound immediate PersistentVolumeClaims": "a claim that must be bound first has no volume",
    "PersistentVolumeClaim had no name": "a volume does not name its PersistentVolumeClaim",
    "PersistentVolume had no name": "a claim does not name its PersistentVolume",
    "PersistentVolumeClaim had no pv name and storageClass name": "a claim has neither a volume nor a StorageClass",
}
"""Upstream's reason that concerns all nodes -> the words for it."""


_CORDONED = "node(s) were unschedulable"
_LEFT_OUT_BY_PRE_FILTER = ("didn't satisfy plugin", "filtered out by the prefilter result")
_NO_OBSTACLES = frozenset({"Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"})
"""Preemption's reasons that do not name an obstacle."""

SHARED_REASON_WORDS = {
    "node(s) were unschedulable": "nodes are cordoned",
    "node(s) had untolerated taint(s)": "nodes have taints that are not tolerated",
    "node(s) didn't match Pod's node affinity/selector": "nodes do not match the node affinity or nodeSelector",
    "node(s) didn't have free ports for the requested pod ports": "host ports are taken",
    "node(s) didn't match pod topology spread constraints": "spread constraints would be violated",
    "node(s) didn't match pod affinity rules": "no pod matches the required pod affinity",
    "node(s) didn't match pod anti-affinity rules": "nodes have pods nearby that the pod's anti-affinity excludes",
    "node(s) didn't satisfy existing pods anti-affinity rules": "nodes run pods with anti-affinity to the pod",
    "node(s) didn't match PersistentVolume's node affinity": "nodes cannot access the volumes",
    "Too many pods": "nodes are full of pods",
    "node(s) had volume node affinity conflict": "nodes cannot access the volumes",
    "node(s) didn't match pod topology spread constraints (missing required label)": (
        "nodes lack the topology label of a spread constraint"
    ),
    "node(s) didn't match scheduler-enforced node affinity": "nodes do not match the scheduler profile's node affinity",
    "node(s) didn't match Pod's required features": "nodes do not declare the features that are needed",
    "node(s) exceed max volume count": "nodes cannot attach more volumes",
    "node(s) didn't find available persistent volumes to bind": "no volume is free for the claims",
    "node(s) did not have enough free storage": "too little storage is free for the volumes",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": "volumes do not exist",
    "node(s) had no available disk": "disks are in use",
    _CLAIM_IN_USE: ("another pod uses the ReadWriteOncePod claim"),
    "node(s) had no available volume zone": "nodes are outside the volumes' zones",
    "cannot allocate all claims": "devices cannot be allocated",
    "resourceclaim not available on the node": "nodes lack the allocated devices",
    "node(s) didn't match the requested node name": "nodes are not the one in spec.nodeName",
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode": (
        "another pod uses the ReadWriteOncePod claim"
    ),
    **WHOLE_REASON_WORDS,
}
"""Upstream's reason -> the words for the cause that several pods share."""


def put_reason_in_plain_words(reason: str) -> str:
    """Put an upstream reason into plain words, followed by the original in parentheses.

    A reason without known plain words is returned as it is.

    >>> put_reason_in_plain_words("Insufficient cpu"), put_reason_in_plain_words("Too many pods")
    ('too little CPU is free (Insufficient cpu)', 'nodes are full of pods (Too many pods)')
    >>> put_reason_in_plain_words("preemption is under way")
    'preemption is under way'
    """
    words = SHARED_REASON_WORDS.get(reason, "")
    if reason.startswith("Insufficient "):
        resource = reason.removeprefix("Insufficient ")
        words = f"too little {_name_resource(resource)} is free"
    return f"{words} ({reason})" if words else reason


def describe_misfit(subject: str, message: str, pods: int = 1, closed: int = 0) -> str:
    """Return a sentence that says why the subject fits nowhere, or the subject and the message if it is no FitError.

    The subject stands for that many pods. `closed` is the number of nodes that only a replay cordoned. They are left
    out, see `rewrite_fit_error`.

    >>> describe_misfit("2 pods", "0/3 nodes are available: 3 Insufficient cpu.", 2), describe_misfit("a", "no quota")
    ('2 pods fit on none of the 3 nodes: 3 lack CPU', 'a: no quota')
    """
    predicate = rewrite_fit_error(message, pods, closed)
    return f"{subject}: {message}" if predicate == message else f"{subject} {predicate}"


def rewrite_fit_error(message: str, pods: int = 1, closed: int = 0) -> str:
    """Rewrite a FitError message as the predicate of a sentence about that many pods, most frequent reason first.

    The scheduler counts a node once for each reason. The text says so if the numbers add up to more than the nodes.
    Other messages, and reasons that have no rewording, are returned unchanged.

    `closed` is the number of nodes that only a replay cordoned, such as a node that is drained on trial. The text is
    then about the other nodes. If the message does not show that these nodes were rejected as cordoned, they are
    counted, and the text says so.

    >>> rewrite_fit_error("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.")
    'fits on none of the 3 nodes: 2 lack CPU, 1 is cordoned'
    >>> rewrite_fit_error("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.", pods=2)
    'fit on none of the 3 nodes: 3 do not match their node affinity/selector'
    >>> rewrite_fit_error('0/3 nodes are available: persistentvolumeclaim "data" not found.')
    'fits on none of the 3 nodes: persistentvolumeclaim "data" not found'
    >>> rewrite_fit_error("0/3 nodes are available: 3 Insufficient cpu, 2 Insufficient memory.")
    'fits on none of the 3 nodes: 3 lack CPU, 2 lack memory (a node may count more than once)'
    >>> rewrite_fit_error("0/2 nodes are available: 2 Too many pods. preemption: 0/2 nodes are available: "
    ... "2 node(s) were unschedulable.")
    'fits on none of the 2 nodes: 2 are full of pods; even without pods of lower priority, 2 are cordoned'
    >>> rewrite_fit_error("0/2 nodes are available: 2 Insufficient cpu. deallocation of ResourceClaim completed, ")
    'fits on none of the 2 nodes: 2 lack CPU'
    >>> rewrite_fit_error("0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable.", closed=2)
    'fits on none of the other 3 nodes: 2 lack CPU, 1 is cordoned'
    >>> rewrite_fit_error("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.", closed=1)
    'does not fit on the only other node: 1 lacks CPU'
    >>> rewrite_fit_error("0/3 nodes are available: 3 Insufficient cpu.", closed=1)
    'fits on none of the 3 nodes: 3 lack CPU (nodes that the replay removes are counted)'
    >>> rewrite_fit_error("waiting for scheduling gates: [a]")
    'waiting for scheduling gates: [a]'
    """
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return message
    nodes, all_sentences = int(match[1]), match[2]
    sentences = _PREEMPTION.sub("", all_sentences).removesuffix(".")
    filter_reasons = _parse_reasons(sentences)

    counted_reasons = filter_reasons
    other = ""
    suffix = ""
    if closed:
        reasons_of_other_nodes = _leave_out_cordoned_nodes(filter_reasons, closed)
        if reasons_of_other_nodes and nodes > closed:
            counted_reasons = reasons_of_other_nodes
            nodes -= closed
            other = "other "
        else:
            suffix = " (nodes that the replay removes are counted)"

    if nodes == 1:
        headline = f"{'does' if pods == 1 else 'do'} not fit on the only {other}node"
    else:
        headline = f"{'fits' if pods == 1 else 'fit'} on none of the {other}{nodes:,} nodes"
    if not counted_reasons:
        return f"{headline}: {WHOLE_REASON_WORDS.get(sentences, sentences)}"
    if nodes != 1 and sum(count for count, _ in counted_reasons) > nodes:
        suffix = f" (a node may count more than once){suffix}"
    text = f"{headline}: {_describe_reasons(counted_reasons, pods)}{suffix}"
    preemption_match = _PREEMPTION_REASONS.fullmatch(all_sentences)
    if preemption_match:
        text += _describe_obstacles_to_preemption(preemption_match[1], filter_reasons, pods)
    return text


def _describe_obstacles_to_preemption(sentence: str, filter_reasons: Sequence[tuple[int, str]], pods: int) -> str:
    """Describe, in a clause to append, the reasons why preemption does not help that many pods either.

    ``sentence`` has these reasons with their numbers of nodes. Reasons that are among ``filter_reasons`` or name no
    obstacle are left out. Return "" if none remains.
    """
    known_reasons = {reason for _, reason in filter_reasons} | _NO_OBSTACLES
    obstacles = [(count, reason) for count, reason in _parse_reasons(sentence) if reason not in known_reasons]
    return f"; even without pods of lower priority, {_describe_reasons(obstacles, pods)}" if obstacles else ""


def _leave_out_cordoned_nodes(counted_reasons: list[tuple[int, str]], closed: int) -> list[tuple[int, str]]:
    """Return the reasons without that many cordoned nodes, most frequent first.

    Return [] if fewer nodes were rejected as cordoned, or if a PreFilter plugin left out nodes, which may be cordoned.
    """
    cordoned = next((count for count, reason in counted_reasons if reason == _CORDONED), 0)
    if cordoned < closed or any(words in reason for _, reason in counted_reasons for words in _LEFT_OUT_BY_PRE_FILTER):
        return []
    reduced = [(count - closed if reason == _CORDONED else count, reason) for count, reason in counted_reasons]
    return sorted((entry for entry in reduced if entry[0]), key=lambda entry: -entry[0])


def _parse_reasons(sentence: str) -> list[tuple[int, str]]:
    """Return each reason with its number of nodes, most frequent first.

    Return [] unless all reasons have a number.
    """
    matches = [_COUNTED.fullmatch(reason) for reason in _BETWEEN.split(sentence)]
    if not all(matches):
        return []
    return sorted(((int(match[1]), match[2]) for match in matches if match), key=lambda entry: -entry[0])


def describe_node_reasons(groups: Iterable[tuple[int, Sequence[str]]], nodes: int, noun: str) -> str:
    """Describe why nodes do not take a pod.

    Each group pairs a number of nodes with the reasons that upstream gives for them. ``nodes`` is the number of nodes
    in total, and ``noun`` is the word for one of them.

    >>> groups = [(1, ["Insufficient cpu", "Insufficient memory"]), (2, ["node(s) were unschedulable"])]
    >>> describe_node_reasons(groups, 3, "usable node")
    'of 3 usable nodes, 1 lacks CPU and memory, 2 are cordoned'
    >>> describe_node_reasons([(1, ["Insufficient cpu"])], 1, "usable node")
    'the only usable node lacks CPU'
    """
    described = []
    for number, reasons in groups:
        first, *other_reasons = (_describe_reason(number, reason) for reason in reasons)
        # Every description starts with the number and a verb, such as "1 lacks", which are not repeated after "and".
        number_and_verb = " ".join(first.split(" ")[:2])
        shortened = [other.removeprefix(f"{number_and_verb} ") for other in other_reasons]
        described.append(" and ".join((first, *shortened)))
    text = ", ".join(described)
    return f"the only {noun} {text.removeprefix('1 ')}" if nodes == 1 else f"of {nodes:,} {noun}s, {text}"


def _describe_reasons(counted_reasons: list[tuple[int, str]], pods: int) -> str:
    """List the reasons why that many pods do not fit, with their numbers of nodes."""
    return ", ".join(_describe_reason(count, reason, pods) for count, reason in counted_reasons)


def _describe_reason(number: int, reason: str, pods: int = 1) -> str:
    """Describe the reason why a number of nodes do not fit the pods, in plain words or, if it is unknown, unchanged."""
    if reason not in REASON_WORDS:
        singular, plural = _find_pattern_wording(reason)
        return f"{number:,} {singular if number == 1 else plural}"
    words = REASON_WORDS[reason][number != 1]
    if pods != 1:
        for pronoun_for_pod, pronoun_for_pods in _PLURAL_PRONOUNS:
            words = words.replace(pronoun_for_pod, pronoun_for_pods)
    return f"{number:,} {words}"


def _find_pattern_wording(reason: str) -> tuple[str, str]:
    """Return the singular and plural wording of the first pattern that the reason matches, or the reason twice.

    >>> _find_pattern_wording("node(s) had untolerated taint {dedicated: db}")
    ('has the untolerated taint dedicated=db', 'have the untolerated taint dedicated=db')
    """
    for pattern, singular, plural in REASON_PATTERNS:
        if match := re.fullmatch(pattern, reason):
            groups = match.groupdict()
            if "resource" in groups:
                groups["resource"] = _name_resource(groups["resource"])
            if groups.get("value"):
                groups["value"] = f"={groups['value']}"
            if "plugins" in groups:
                groups["plugins"] = " and ".join(groups["plugins"].split())
            return singular.format(**groups), plural.format(**groups)
    return reason, reason


def _name_resource(resource: str) -> str:
    """Return the name of a resource for running text, where cpu is an abbreviation.

    >>> _name_resource("cpu"), _name_resource("nvidia.com/gpu")
    ('CPU', 'nvidia.com/gpu')
    """
    return "CPU" if resource == "cpu" else resource
