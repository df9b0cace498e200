"""The operating system and architecture that a pod's image is built for, inferred from its manifest."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import Cycle

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
