"""Names by which objects refer to others: whether one was meant for another that is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kschedctl.cluster import CLUSTER_SCOPED
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.world import World

_PROVIDED = {
    "StorageClass": {"standard", "default", "managed", "gp2", "gp3", "local-path", "hostpath", "longhorn"},
    "RuntimeClass": {"nvidia", "runc", "crun", "kata", "gvisor", "runsc", "spin"},
    "ServiceAccount": {"default"},
}
"""Kind -> names that clusters bring with them."""
_MOST_COMPARED = 500
"""Names of one kind; nobody finds a slip among more of them."""


class NameReference(NamedTuple):
    """The name of an object of a kind, and the field of an object that holds it."""

    subject: Subject
    path: Path
    kind: str
    name: str


def misspelt(world: World, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Names that nothing has, each beside one that was meant."""
    anywhere: dict[str, set[str]] = {}
    for subject, path, kind, name in references:
        known = anywhere.setdefault(kind, world.names_anywhere(kind))
        if not name or name in known or name in _PROVIDED.get(kind, ()):
            continue
        namespace = "" if kind in CLUSTER_SCOPED else subject.namespace or "default"
        names = world.names_beside(subject, kind, namespace)
        if name not in names and len(names) <= _MOST_COMPARED and (meant := one_meant(name, names)):
            yield subject.problem(path, f'there is no {kind} "{name}", but "{meant}"', f"Write {meant}")
