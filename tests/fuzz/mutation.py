"""Break documents: values of other types, missing, huge or strange parts, and truncated or flipped text."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import yaml

HUGE = "@huge@"  # a number of 5,000 digits, which Python does not print
DEEP = "@deep@"
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 5, 100, 1.5, -0.0, 1e308, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1),
    *(2**63, -(2**63) - 1, 2**64, 10**30, HUGE, DEEP, [], {}, [None], [[]], [{}], {"": None}, {"a": {"b": [1]}}),
    *("", " ", "x", "0", "-1", "5%", "1e3", "1e400", "999999999999999999999", "1Ei", "9" * 5000, "100m", "NaN", "*"),
    *("\x00", "\x1b[2J", "a\nb", "\t=1+1", "=cmd()", "\u202egnp", "\ud800", "é" * 300, "/", "../..", "a/b/c", "-"),
    *("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "NoExecute", "{{ .Values.x }}", "${x}", "w" * 100_000),
)
_STRANGE_KEYS = ("", " ", "\x00", "\x1b[31m", "a\nb", "\ud800", "<<", "null", "kind", "items", "k" * 5000)
_STUFFING = (
    *(b"#", b" ", b"---\n", b"...\n", b"%", b'"', b"'", b"&a ", b"*a ", b"[", b"{", b"- ", b"? ", b"\t", b"|\n", b": "),
    *(
        b"# # #\n",
        b"\n",
        b"\r",
        b",",
        b"\\",
        b"!!x ",
        b"\xef\xbb\xbf",
        b"\x00",
        b"\xff\xfe",
        b"\xc3\x28",
        b"a: &b [*b]\n",
    ),
)

Change = Callable[[random.Random, Any], Any]


def mutate(rng: random.Random, value: Any, times: int) -> Any:
    """Return a copy of a document with this many changed places, half of them with plausible values."""
    value, changes = copy.deepcopy(value), rng.choice((_CHANGES, _LIKELY))
    for _ in range(times):
        places = list(_iter_places(value))
        if not places:
            return draw_odd_value(rng)
        holder, key = rng.choice(places)
        if key in holder if isinstance(holder, dict) else key < len(holder):
            rng.choice(changes)(rng, holder, key, places)
    return value


def draw_odd_value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(_ODD))


def _iter_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (mapping or list, key or index) in a document."""
    stack = [value]
    while stack:
        holder = stack.pop()
        inside = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
        for key, inner in inside:
            yield holder, key
            stack.append(inner)


def _swap_type(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    holder[key] = draw_odd_value(rng)


def _wrap(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    holder[key] = rng.choice(([holder[key]], {"x": holder[key]}, str(holder[key])[:1000]))


def _delete(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    del holder[key]


def _rename(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    """Rename a key to a strange one, or duplicate an item of a list."""
    if isinstance(holder, dict):
        holder[rng.choice(_STRANGE_KEYS)] = holder.pop(key)
    else:
        holder.insert(key, copy.deepcopy(holder[key]))


def _transplant(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    """Copy a value from elsewhere to this place, unless the document would grow without end."""
    other, at = rng.choice(places)
    found = other.get(at) if isinstance(other, dict) else other[at] if at < len(other) else None
    if len(str(found)) < 5000:
        holder[key] = copy.deepcopy(found)


def _change_number(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    """Replace a number with another one, or change a text slightly."""
    if isinstance(holder[key], int) and not isinstance(holder[key], bool):
        holder[key] = rng.choice((0, -1, 1, 1000, 10**6, 2**31, 2**63, 10**18, -(10**18), HUGE))
    elif isinstance(holder[key], str):
        holder[key] = rng.choice(
            (holder[key] + rng.choice("\x00\n\x1b \t=,/é\ud800"), holder[key][:-1], holder[key] * 3)
        )


def _replace_with_like(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    """Replace a value with another one of its type, from elsewhere in the document or at a limit."""
    type_ = type(holder[key])
    if rng.random() < 0.5:
        found = [value for value in _ODD if type(value) is type_ and value not in (HUGE, DEEP)]
    else:
        others = (rng.choice(places) for _ in range(40))
        found = [o[k] for o, k in others if (k in o if isinstance(o, dict) else k < len(o)) and type(o[k]) is type_]
    fitting = [value for value in found if len(str(value)) < 3000]
    if fitting:
        holder[key] = copy.deepcopy(rng.choice(fitting))


def _repeat_or_remove_item(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    """Repeat or remove an item."""
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key])) if rng.random() < 0.7 else holder.pop(key)


_TIMES = ("0001-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00+23:59")
_AMOUNTS = ("12E", "8Ei", "9223372036854775807", "9223372036854775808", "9223372036854775807m", "-9E", "1e19", "9E999")
_OF_FIELDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("creationTimestamp", "startTime", "deletionTimestamp", "lastTransitionTime", "eventTime"), _TIMES),
    **dict.fromkeys(("cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "storage", "value"), _AMOUNTS),
    **dict.fromkeys(("name", "namespace", "nodeName"), ("a/b", "/", "a/", "shop/web/1", "*")),
    "apiVersion": (
        "v2",
        "apps/v99",
        "resource.k8s.io/v1",
        "scheduling.k8s.io/v1beta1",
        "v1alpha1",
        "storage.k8s.io/v2beta3",
    ),
    **dict.fromkeys(
        ("preEnqueue", "preFilter", "filter", "preScore", "score", "postFilter", "reserve", "permit", "multiPoint"),
        ({"disabled": [{"name": "*"}]}, {"enabled": [{"name": "*"}]}, {"enabled": [{"name": "NodeName"}] * 3}),
    ),
    "plugins": ({"preScore": {"disabled": [{"name": "*"}]}}, {"multiPoint": {"disabled": [{"name": "*"}]}}),
    "status": ({"nominatedNodeName": "n1"}, {"phase": "Pending", "nominatedNodeName": "a/b"}),
    **dict.fromkeys(("priority", "hostPort", "replicas", "weight", "count"), (10**23, -(10**23), 2**63, 1e19, 2**31)),
    "featureGates": ({"ImageVolume": True, "MadeUp": True}, {"MutableCSINodeAllocatableCount": "true"}),
}
"""Field -> unusual values in the form of the field, which Go programs accept or reject in one line."""


def _set_odd_value(rng: random.Random, holder: Any, key: Any, places: Any) -> None:
    """Put an odd value into a field: zero times, amounts near 2**63, slashes, newer versions, or null items."""
    fitting = [(o, k) for o, k in places if k in _OF_FIELDS] if isinstance(key, int) or key not in _OF_FIELDS else []
    holder, key = rng.choice(fitting) if fitting else (holder, key)
    if isinstance(key, str) and key in _OF_FIELDS and key in holder:
        holder[key] = copy.deepcopy(rng.choice(_OF_FIELDS[key]))
    lists = [o[k] for o, k in places if isinstance(o, dict) and isinstance(o.get(k), list)]
    if lists and rng.random() < 0.3:
        found = rng.choice(lists)
        found.insert(rng.randrange(len(found) + 1), None)
    if lists and rng.random() < 0.05:
        found = rng.choice(lists)
        found.extend(copy.deepcopy(found[:1]) * rng.choice((1, 30, 300)))


_LIKELY = (
    _replace_with_like,
    _replace_with_like,
    _replace_with_like,
    _repeat_or_remove_item,
    _repeat_or_remove_item,
    _delete,
    _set_odd_value,
    _set_odd_value,
)
_CHANGES = (
    _set_odd_value,
    _swap_type,
    _swap_type,
    _wrap,
    _delete,
    _delete,
    _rename,
    _transplant,
    _change_number,
    _change_number,
)


# -- text ---------------------------------------------------------------------------------------------------------


def write_documents(rng: random.Random, documents: list[Any]) -> bytes:
    """Write documents as JSON or YAML, one by one or in a list."""
    if rng.random() < 0.4:
        documents = [{"apiVersion": "v1", "kind": rng.choice(("List", "List", "PodList")), "items": documents}]
    if rng.random() < 0.5:
        indent = rng.choice((None, None, 1))
        text = "\n".join(json.dumps(document, indent=indent) for document in documents)
    else:
        text = "\n".join(f"---\n{_write_yaml(document)}" for document in documents)
    deep = rng.choice((60, 150, 600, 5000))
    text = text.replace(f'"{DEEP}"', DEEP).replace(f"'{DEEP}'", DEEP).replace(DEEP, "[" * deep + "]" * deep)
    text = text.replace(f'"{HUGE}"', HUGE).replace(f"'{HUGE}'", HUGE).replace(HUGE, "9" * 5000)
    return text.encode("utf-8", "surrogatepass")


def _write_yaml(document: Any) -> str:
    """Write a document as YAML, or as JSON if YAML cannot hold it."""
    try:
        return str(yaml.dump(document, Dumper=_DUMPER, allow_unicode=False, sort_keys=False, width=10**9))
    except UnicodeEncodeError:  # half of a surrogate pair, which YAML cannot hold
        return json.dumps(document)


def damage(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes cut, flipped, or stuffed with characters that parsers dislike."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        data = rng.choice(_DAMAGES)(rng, data)
    return data


def _draw_position(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: _draw_position(rng, data)]


def _flip(rng: random.Random, data: bytes) -> bytes:
    """Flip one bit of the data."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _cut_out(rng: random.Random, data: bytes) -> bytes:
    at = _draw_position(rng, data)
    return data[:at] + data[at + rng.choice((1, 2, 10, 100, 1000)) :]


def _stuff(rng: random.Random, data: bytes) -> bytes:
    at = data.rfind(b"\n", 0, _draw_position(rng, data)) + 1 if rng.random() < 0.5 else _draw_position(rng, data)
    return data[:at] + rng.choice(_STUFFING) * rng.choice((1, 1, 2, 30, 1000, 100_000)) + data[at:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at, size = _draw_position(rng, data), rng.choice((5, 50, 500))
    return data[:at] + data[at : at + size] * rng.choice((1, 10)) + data[at:]


def _replace(rng: random.Random, data: bytes) -> bytes:
    """Replace a word by another word of the same text."""
    words = data.split(maxsplit=2000)[:2000]
    return data.replace(rng.choice(words)[:200], rng.choice(words)[:200], 3) if words else data


def _pack(rng: random.Random, data: bytes) -> bytes:
    return gzip.compress(data, 1)


_DAMAGES = (_truncate, _flip, _flip, _cut_out, _stuff, _stuff, _repeat, _replace, _pack)
