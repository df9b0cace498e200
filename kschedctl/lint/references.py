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
    """The name of an object of a kind, and the field of an object that holds it.

    ``namespace``: that of the object with the name, unless it is that of the one with the field.
    """

    subject: Subject
    path: Path
    kind: str
    name: str
    namespace: str = ""

    @property
    def where(self) -> str:
        """The namespace, empty for kinds without one."""
        return "" if self.kind in CLUSTER_SCOPED else self.namespace or self.subject.namespace or "default"


def misspelt(world: World, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Names that nothing has, each beside one that was meant."""
    anywhere: dict[str, set[str]] = {}
    for reference in references:
        kind, name = reference.kind, reference.name
        known = anywhere.setdefault(kind, world.names_anywhere(kind))
        if not name or name in known or name in _PROVIDED.get(kind, ()):
            continue
        names = world.names_beside(reference.subject, kind, reference.where)
        if name not in names and len(names) <= _MOST_COMPARED and (meant := one_meant(name, names)):
            message = f'there is no {kind} "{name}", but "{meant}"'
            yield reference.subject.problem(reference.path, message, f"Write {meant}")


def elsewhere(world: World, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Names that only an object of another namespace has, which nothing there names."""
    references = [reference for reference in references if reference.name and reference.subject.namespace]
    named = {(reference.kind, reference.where, reference.name) for reference in references}
    for subject, path, kind, name, _ in references:
        homes = world.namespaces_of(kind, name)
        free = [home for home in homes if (kind, home, name) not in named]
        if (
            homes == free
            and len(free) == 1
            and free != [subject.namespace]
            and not world.others_own([subject.namespace])
        ):
            yield subject.problem(path, f'{kind} "{name}" is in namespace {free[0]}, and seen from there alone')
