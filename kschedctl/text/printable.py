"""Text for the terminal: unsafe characters escaped, credentials removed from URLs, FitErrors made readable."""

from __future__ import annotations

import re


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
    r"(?:\.? (?:no new claims to deallocate,? ?|still not schedulable,? ?)?|\. not found,? ?)(?:preemption: .*)?$",
    re.DOTALL,
)
_PREEMPTION_REASONS = re.compile(r".*preemption: 0/\d+ nodes are available: (.*?)\.?", re.DOTALL)
_COUNTED = re.compile(r"(\d+) (.+)", re.DOTALL)
_BETWEEN = re.compile(r", (?=\d+ )")

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
        "has its host port taken",
        "have its host port taken",
    ),
    "node(s) didn't match pod topology spread constraints": (
        "would break its spread constraints",
        "would break its spread constraints",
    ),
    "node(s) didn't match pod affinity rules": ("is not near the pods it needs", "are not near the pods it needs"),
    "node(s) didn't match pod anti-affinity rules": ("has pods it avoids", "have pods it avoids"),
    "node(s) didn't satisfy existing pods anti-affinity rules": ("has pods that avoid it", "have pods that avoid it"),
    "node(s) didn't match PersistentVolume's node affinity": ("does not reach its volume", "do not reach its volume"),
    "Too many pods": ("is full of pods", "are full of pods"),
}
"""Upstream's reason -> the words for one node and for several nodes."""


_NO_OBSTACLES = frozenset({"Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"})
"""What preemption says about nodes without naming an obstacle."""

SHARED_REASON_WORDS = {
    "node(s) were unschedulable": "nodes are cordoned",
    "node(s) had untolerated taint(s)": "nodes have taints that are not tolerated",
    "node(s) didn't match Pod's node affinity/selector": "nodes do not match the node affinity or nodeSelector",
    "node(s) didn't have free ports for the requested pod ports": "host ports are taken",
    "node(s) didn't match pod topology spread constraints": "spread constraints would be violated",
    "node(s) didn't match pod affinity rules": "the pods that affinity requires are not there",
    "node(s) didn't match pod anti-affinity rules": "nodes have pods that anti-affinity avoids",
    "node(s) didn't satisfy existing pods anti-affinity rules": "nodes have pods with anti-affinity to it",
    "node(s) didn't match PersistentVolume's node affinity": "nodes do not reach the volumes",
    "Too many pods": "nodes are full of pods",
}
"""Upstream's reason -> the words for the cause that several pods share."""


def describe_shared_reason(reason: str) -> str:
    """Describe upstream's reason as the cause that several pods share, with upstream's words in parentheses.

    >>> describe_shared_reason("Insufficient cpu"), describe_shared_reason("Too many pods")
    ('too little CPU is free (Insufficient cpu)', 'nodes are full of pods (Too many pods)')
    >>> describe_shared_reason("preemption is under way")
    'preemption is under way'
    """
    prefix, _, resource = reason.partition("Insufficient ")
    words = (
        f"too little {_name_resource(resource)} is free"
        if resource and not prefix
        else SHARED_REASON_WORDS.get(reason, "")
    )
    return f"{words} ({reason})" if words else reason


def rewrite_fit_error(message: str) -> str:
    """Rewrite a FitError message as a sentence, most frequent reason first.

    Other messages, and reasons that have no rewording, are returned unchanged.

    >>> rewrite_fit_error("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.")
    'None of 3 nodes fits: 2 lack CPU, 1 is cordoned'
    >>> rewrite_fit_error('0/3 nodes are available: persistentvolumeclaim "data" not found.')
    'None of 3 nodes fits: persistentvolumeclaim "data" not found'
    >>> rewrite_fit_error("0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
    ... "2 node(s) didn't match pod anti-affinity rules.")
    'None of 2 nodes fits: 2 lack CPU; without pods of lower priority, 2 have pods it avoids'
    >>> rewrite_fit_error("waiting for scheduling gates: [a]")
    'waiting for scheduling gates: [a]'
    """
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return message
    nodes, all_sentences = match.groups()
    sentences = _PREEMPTION.sub("", all_sentences).removesuffix(".")
    counted_reasons = _parse_reasons(sentences)
    headline = f"None of {int(nodes):,} nodes fits" if nodes != "1" else "The only node does not fit"
    if not counted_reasons:
        return f"{headline}: {sentences}"
    text = f"{headline}: {_describe_reasons(counted_reasons)}"

    # Obstacles that preemption finds behind missing room
    behind = _PREEMPTION_REASONS.fullmatch(all_sentences)
    seen = {reason for _, reason in counted_reasons} | _NO_OBSTACLES
    further = [entry for entry in _parse_reasons(behind[1]) if entry[1] not in seen] if behind else []
    return f"{text}; without pods of lower priority, {_describe_reasons(further)}" if further else text


def _parse_reasons(sentence: str) -> list[tuple[int, str]]:
    """Return each reason with its number of nodes, most frequent first, or [] unless all reasons have a number."""
    matches = [_COUNTED.fullmatch(reason) for reason in _BETWEEN.split(sentence)]
    if not all(matches):
        return []
    return sorted(((int(match[1]), match[2]) for match in matches if match), key=lambda entry: -entry[0])


def _describe_reasons(counted_reasons: list[tuple[int, str]]) -> str:
    """List the reasons with their numbers of nodes."""
    return ", ".join(_describe_reason(count, reason) for count, reason in counted_reasons)


def _describe_reason(number: int, reason: str) -> str:
    """Describe the reason why a number of nodes do not fit, in REASON_WORDS or else in upstream's words."""
    prefix, _, resource = reason.partition("Insufficient ")
    if resource and not prefix:
        singular = f"lacks {_name_resource(resource)}"
        plural = f"lack {_name_resource(resource)}"
    else:
        singular, plural = REASON_WORDS.get(reason, (reason, reason))
    return f"{number:,} {singular if number == 1 else plural}"


def _name_resource(resource: str) -> str:
    """Return the name of a resource for running text, where cpu is an abbreviation.

    >>> _name_resource("cpu"), _name_resource("nvidia.com/gpu")
    ('CPU', 'nvidia.com/gpu')
    """
    return "CPU" if resource == "cpu" else resource
