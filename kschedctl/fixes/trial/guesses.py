"""Guesses about nodes: devices that labels or taints indicate, an image's platform, and plausible machine sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.objects import Pod, Taint
from kschedctl.api.resource_names import is_extended
from kschedctl.scheduler.engine.cycle import Cycle

DEVICE_WORD = re.compile(r"(?:^|[^a-z])(gpu|tpu|npu|fpga|accelerator)s?(?:[^a-z]|$)", re.IGNORECASE)
"""Words in labels and taints that name the kind of a node's devices."""
NEGATIVE_VALUES = frozenset({"false", "no", "0", "none", "disabled"})
"""Label values that negate what their key says."""


def find_device_hint(resource: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> str:
    """Return the label or taint that marks a node as having an extended resource's devices, or an empty string.

    >>> find_device_hint("nvidia.com/gpu", {"nvidia.com/gpu.present": "true"}, ())
    'label nvidia.com/gpu.present=true'
    >>> find_device_hint("nvidia.com/gpu", {"pool": "gpu"}, ())
    'label pool=gpu'
    >>> find_device_hint("nvidia.com/gpu", {"nvidia.com/gpu.present": "false", "pool": "web"}, ())
    ''
    """
    return next(_iter_device_hints(resource, labels, taints), "")


def _iter_device_hints(resource: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Iterator[str]:
    """Yield, in words, the taints and labels that mention the resource or its kind of device.

    Labels whose value says no, such as "false", are left out.
    """
    domain, _, name = resource.rpartition("/")
    words = _find_device_words(name)
    if "gpu" in words:
        words.add("accelerator")  # a GPU may be marked by the more general word
    for taint in taints:
        if taint.key == resource or not words.isdisjoint(_find_device_words(f"{taint.key}={taint.value}")):
            yield f"taint {taint}"
    for key, value in labels.items():
        if value.lower() in NEGATIVE_VALUES:
            continue
        if key.startswith(f"{domain}/{name}") or not words.isdisjoint(_find_device_words(f"{key}={value}")):
            yield f"label {key}={value}"


def _find_device_words(text: str) -> set[str]:
    """Return the words in the text that name kinds of devices, in lower case."""
    return {word.lower() for word in DEVICE_WORD.findall(text)}


OS, ARCH = "kubernetes.io/os", "kubernetes.io/arch"
PLATFORMS = {
    OS: frozenset({"linux", "windows"}),
    ARCH: frozenset({"amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "loong64"}),
}
"""Label -> the values that an image can be built for. No value is a misspelling of another or can replace it."""
_LABELS_BY_NAME = {label.rpartition("/")[2]: label for label in PLATFORMS}
"""Name without its prefix, os or arch -> label."""


def find_image_platform(pod: Pod, *, selectors: bool = True) -> dict[str, str]:
    """Return the operating system and architecture that the pod's image needs, by node label.

    They are inferred from spec.os, tolerations and, unless `selectors` is False, the nodeSelector. A pod that tolerates
    `os=windows` has an image for Windows. A label is missing from the result if nothing hints at its value.

    >>> from kschedctl.api.objects import PodSpec, Toleration
    >>> find_image_platform(Pod(spec=PodSpec(tolerations=(Toleration("os", "Equal", "windows"),))))
    {'kubernetes.io/os': 'windows'}
    """
    platform: dict[str, str] = {}
    for key, value in _iter_platform_keys_and_values(pod, selectors):
        label = _LABELS_BY_NAME.get(key.rpartition("/")[2], "")
        if label and value in PLATFORMS[label]:
            platform.setdefault(label, value)
    return platform


def _iter_platform_keys_and_values(pod: Pod, selectors: bool) -> Iterator[tuple[str, str]]:
    """Yield keys and values in the pod's spec that may name its operating system or architecture.

    These are the name of its operating system, its tolerations and, if `selectors` is true, its nodeSelector.
    """
    if pod.spec.os is not None:
        yield OS, pod.spec.os.name
    for toleration in pod.spec.tolerations:
        yield toleration.key, toleration.value
    if selectors:
        yield from pod.spec.node_selector.items()


def lacks_feasible_node_for_image(pod: Pod, cycle: Cycle) -> bool:
    """Return whether there are feasible nodes, but all of them have another platform than the pod's image.

    A feasible node without the platform's label may have any platform.
    """
    for label, value in find_image_platform(pod, selectors=False).items():
        column = cycle.view.nodes.label(label)
        codes = column.codes[cycle.feasible].tolist()  # -1 for a node without the label
        if codes and all(code >= 0 and column.values[code] != value for code in codes):
            return True
    return False


MAX_SIZE_RATIO = 4
"""The largest plausible ratio to the largest known machine. Machine sizes double, so this is two sizes larger."""


def is_plausible_machine_size(resource: str, amount: int, largest: int) -> bool:
    """Return whether a machine may plausibly offer this amount, given the largest amount of a known machine.

    Any amount is plausible if no known machine has the resource. Otherwise, a machine has no more devices than the
    largest known one, and at most `MAX_SIZE_RATIO` times its amount of other resources.

    >>> is_plausible_machine_size("memory", 200, largest=63), is_plausible_machine_size("cpu", 501_000, largest=16_000)
    (True, False)
    >>> is_plausible_machine_size("nvidia.com/gpu", 8, largest=4)
    False
    >>> is_plausible_machine_size("nvidia.com/gpu", 1, largest=0)
    True
    """
    if largest == 0:
        return True
    return amount <= largest if is_extended(resource) else amount <= MAX_SIZE_RATIO * largest
