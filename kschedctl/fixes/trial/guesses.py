"""Guesses about nodes: the devices that a taint promises, an image's platform, and the sizes of unseen machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.objects import Pod, Taint
from kschedctl.api.resource_names import is_extended
from kschedctl.scheduler.engine.cycle import Cycle

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


OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
PLATFORMS = {
    OS: frozenset({"linux", "windows"}),
    ARCH: frozenset({"amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "loong64"}),
}
"""Label -> values that an image may be built for. None of them is a misspelling of, or a substitute for, another."""
_BY_NAME = {label.rpartition("/")[2]: label for label in PLATFORMS}


def find_image_platform(pod: Pod, *, selectors: bool = True) -> dict[str, str]:
    """Return the labels kubernetes.io/os and kubernetes.io/arch of nodes that can run the image, if known.

    They are inferred from spec.os, tolerations and, with `selectors`, the nodeSelector. A pod that tolerates
    `os=windows` has an image for Windows.

    >>> from kschedctl.api.objects import PodSpec, Toleration
    >>> find_image_platform(Pod(spec=PodSpec(tolerations=(Toleration("os", "Equal", "windows"),))))
    {'kubernetes.io/os': 'windows'}
    """
    platform: dict[str, str] = {}
    for key, value in _iter_platform_hints(pod, selectors):
        label = _BY_NAME.get(key.rpartition("/")[2], "")
        if label and value in PLATFORMS[label]:
            platform.setdefault(label, value)
    return platform


def _iter_platform_hints(pod: Pod, selectors: bool) -> Iterator[tuple[str, str]]:
    """Yield key and value of all that may name the platform."""
    if pod.spec.os is not None:
        yield OS, pod.spec.os.name
    for toleration in pod.spec.tolerations:
        yield toleration.key, toleration.value
    if selectors:
        yield from pod.spec.node_selector.items()


def runs_on_no_feasible_node(pod: Pod, cycle: Cycle) -> bool:
    """Return whether the labels of every feasible node contradict the platform that the pod's image is built for."""
    for label, value in find_image_platform(pod, selectors=False).items():
        column = cycle.view.nodes.label(label)
        codes = column.codes[cycle.feasible].tolist()
        if codes and all(code >= 0 and column.values[code] != value for code in codes):
            return True
    return False


MAX_SIZE_RATIO = 4
"""The plausible ratio to the largest known machine: sizes double, so this is two sizes more."""


def is_plausible(resource: str, amount: int, largest: int) -> bool:
    """Return whether a machine may offer the amount, given the largest amount that a known machine offers.

    No more devices are plausible than a machine is known to have, unless no machine is known to have any.

    >>> is_plausible("memory", 200, largest=63), is_plausible("cpu", 501_000, largest=16_000)
    (True, False)
    >>> is_plausible("nvidia.com/gpu", 8, largest=4), is_plausible("nvidia.com/gpu", 1, largest=0)
    (False, True)
    """
    if largest == 0:
        return True
    return amount <= largest if is_extended(resource) else amount <= MAX_SIZE_RATIO * largest
