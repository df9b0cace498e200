"""Values of well-known node labels that no node has, and an operating system that contradicts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.lint import documentation as doc
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.requirements import DEPRECATED, alternatives
from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.lint.rules.likely_mistakes.node_labels import ARCH, OS
from kschedctl.lint.rules.node_selection import where
from kschedctl.lint.rules.storage import node_terms
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World

_ARCHITECTURES = ("amd64", "arm64", "arm", "386", "ppc64le", "ppc64", "s390x", "riscv64", "loong64", "mips64le")
_SYSTEMS = ("linux", "windows", "darwin", "freebsd")
"""Also of nodes that are none: virtual ones."""
VALUES: dict[str, tuple[str, ...]] = {
    ARCH: _ARCHITECTURES,
    OS: _SYSTEMS,
    "karpenter.sh/capacity-type": ("spot", "on-demand", "reserved"),
    "eks.amazonaws.com/capacityType": ("SPOT", "ON_DEMAND", "CAPACITY_BLOCK"),
    "kubernetes.azure.com/mode": ("system", "user"),
    "kubernetes.azure.com/scalesetpriority": ("spot", "regular"),
}
"""Label -> all the values that it has. Of architectures: GOARCH of what kubelets are built for."""
_CLOSED = (ARCH, OS)
"""Of which no provider has values of its own."""
_ALIASES = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "x86", "amd", "amd_64", "intel", "intel64"), "amd64"),
    **dict.fromkeys(("aarch64", "arm_64", "arm64v8", "arm64/v8", "armv8", "graviton"), "arm64"),
    **dict.fromkeys(("armhf", "armv7", "armv7l", "arm32", "arm/v7"), "arm"),
    **dict.fromkeys(("i386", "i686", "ia32"), "386"),
    **dict.fromkeys(("win", "win32", "win64", "windows-server"), "windows"),
    **dict.fromkeys(("ubuntu", "debian", "rhel", "bottlerocket", "al2", "al2023", "gnu/linux"), "linux"),
    **dict.fromkeys(("ondemand", "on_demand"), "on-demand"),
}
"""What others call it, in lower case -> the value of the label."""


class _Asked(NamedTuple):
    """A requirement on a label of nodes; the paths of its values."""

    key: str
    operator: str
    values: tuple[tuple[Path, str], ...]


def unknown_value(world: World) -> Iterator[Problem]:
    pools = {subject.name for subject, _ in world.linted("NodePool")}
    for workload in world.workloads:
        for asked in _asked(workload):
            problems = list(_of_pools(workload.subject, asked, pools) if asked.key == _POOL else _unknown(asked))
            yield from (workload.problem(path, message, fix) for path, message, fix in problems)
    for subject, pool in world.linted("NodePool"):
        for i, declared in enumerate(pool.spec.template.spec.requirements):
            at: Path = ("spec", "template", "spec", "requirements", i, "values")
            values = tuple(((*at, j), str(value)) for j, value in enumerate(declared.values))
            for path, message, fix in _unknown(_Asked(declared.key, declared.operator, values)):
                yield subject.problem(path, message, fix)


_POOL = "karpenter.sh/nodepool"


def _asked(workload: Workload) -> Iterator[_Asked]:
    """What a pod's spec asks of labels of nodes, be it only preferred."""
    for key, value in workload.spec.node_selector.items():
        yield _Asked(key, "In", ((("nodeSelector", key), value),))
    for at, term in node_terms(workload):
        for i, expression in enumerate(term.match_expressions):
            path: Path = (*at, "matchExpressions", i, "values")
            values = tuple(((*path, j), value) for j, value in enumerate(expression.values or ()))
            yield _Asked(expression.key, expression.operator, values)


def _unknown(asked: _Asked) -> Iterator[tuple[Path, str, str]]:
    """(field, what is wrong, what to write) of values that no node has, where they are not beside what is meant."""
    key = DEPRECATED.get(asked.key, asked.key)
    known = VALUES.get(key, ())
    written = {value for _, value in asked.values}
    for path, value in asked.values if known and asked.operator in ("In", "NotIn") else ():
        meant = "" if value in known else _value_meant(value, known)
        if value in known or meant in written or (not meant and key not in _CLOSED):
            continue
        fix = f"Write {meant}" if meant else f"Write one of {', '.join(known[:3])}"
        yield path, f"{asked.key} is never {value or 'empty'} on a node", fix


def _value_meant(value: str, known: tuple[str, ...]) -> str:
    alias = _ALIASES.get(value.lower(), "")
    return alias if alias in known else one_meant(value, known)


def _of_pools(subject: Subject, asked: _Asked, pools: Iterable[str]) -> Iterator[tuple[Path, str, str]]:
    """The same of the name of a NodePool."""
    for path, value in asked.values:
        if meant := one_meant(value, pools) if value not in pools else "":
            yield path, f'there is no NodePool "{value}", but "{meant}"', f"Write {meant}"


def os_mismatch(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        field, name = _system(workload)
        if name not in _SYSTEMS:
            continue
        asked = [way.conditions.by_key.get(OS) for way in alternatives(workload.spec)]
        allowed = [values.allowed for values in asked if values is not None and values.allowed is not None]
        if allowed and not any(name in each for each in allowed):
            wanted = ", ".join(sorted({value for each in allowed for value in each}))
            message = f"{field} says {name}, but the pods go to {wanted} nodes only: the kubelet refuses them there"
            yield workload.problem(where(workload), message)
        elif name == "windows" and field == _OS_NAME and not allowed and not workload.spec.node_name:
            yield workload.problem(("os", "name"), "the scheduler does not read it: the pods go to linux nodes too")


_OS_NAME, _OPTIONS = "spec.os", "securityContext.windowsOptions"


def _system(workload: Workload) -> tuple[str, str]:
    """(field, operating system) of what the pods are for; empty where nothing says it."""
    spec = workload.written
    system = spec.get("os")
    if isinstance(system, Mapping) and isinstance(system.get("name"), str):
        return _OS_NAME, system["name"]
    containers = spec.get("containers")
    for each in (spec, *(containers if isinstance(containers, list) else ())):
        context = each.get("securityContext") if isinstance(each, Mapping) else None
        if isinstance(context, Mapping) and context.get("windowsOptions"):
            return _OPTIONS, "windows"
    return "", ""


RULES = (
    Rule(
        "na-unknown-value",
        WARNING,
        unknown_value,
        summary="A value that a well-known label of nodes never has",
        why="No node has it: what is required keeps pods Pending, what is preferred or excluded does nothing.",
        fix="Write the value as nodes have it",
        source=doc.LABELS,
    ),
    Rule(
        "na-os-mismatch",
        ERROR,
        os_mismatch,
        summary="Pods whose operating system is not that of the nodes they go to",
        why="The scheduler does not read spec.os: it places the pods by labels alone, and the kubelet refuses them.",
        fix="Select nodes by kubernetes.io/os with the value of spec.os.name",
        source="https://kubernetes.io/docs/concepts/workloads/pods/#pod-os",
    ),
)
