"""Signs that a node has devices even if no driver publishes them: labels, taints and names of pools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.objects import Taint

DEVICE_WORD = re.compile(r"(?:^|[^a-z])(gpu|tpu|npu|fpga|accelerator)s?(?:[^a-z]|$)", re.IGNORECASE)
"""Words by which labels and taints tell which devices a node has."""
DENIALS = frozenset({"false", "no", "0", "none", "disabled"})
"""Values of labels that deny what their key says."""


def find_device_mark(resource: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> str:
    """Return the label or taint that says that a node has the devices of an extended resource, empty for none.

    >>> find_device_mark("nvidia.com/gpu", {"nvidia.com/gpu.present": "true"}, ())
    'label nvidia.com/gpu.present=true'
    >>> find_device_mark("nvidia.com/gpu", {"pool": "gpu"}, ())
    'label pool=gpu'
    >>> find_device_mark("nvidia.com/gpu", {"nvidia.com/gpu.present": "false", "pool": "web"}, ())
    ''
    """
    return next(_iter_device_marks(resource, labels, taints), "")


def _iter_device_marks(resource: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Iterator[str]:
    """Yield the taints and labels that mention the kind of device."""
    domain, _, name = resource.rpartition("/")
    words = {word.lower() for word in DEVICE_WORD.findall(name)}
    words |= {"accelerator"} if "gpu" in words else set()
    for taint in taints:
        if taint.key == resource or not words.isdisjoint(_find_device_words(f"{taint.key}={taint.value}")):
            yield f"taint {taint}"
    for key, value in labels.items():
        if value.lower() in DENIALS:
            continue
        if key.startswith(f"{domain}/{name}") or not words.isdisjoint(_find_device_words(f"{key}={value}")):
            yield f"label {key}={value}"


def _find_device_words(text: str) -> set[str]:
    """Return the words for kinds of devices in the text, in lower case."""
    return {word.lower() for word in DEVICE_WORD.findall(text)}
