"""Which changes from one version to the next make a difference to a pod: found by replays of a mix of both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.kube_version import VersionMix
from kschedctl.cluster import Cluster
from kschedctl.commands.versions.report import VersionChange
from kschedctl.scheduler.framework.feature_gates import FeatureGates

Names = frozenset[str]
Fate = Callable[[str], Hashable]
"""Pod -> what becomes of it."""
MOST_REPLAYS = 200
NOT_ATTRIBUTED = ("not attributed",)


@dataclass
class Causes:
    """``changes``: name -> how it is told; ``before``: the fates under the first version.

    ``replay``: gives what becomes of a pod under the second version with some changes as they are in the first.
    ``found``: what explained other pods, and is tried first; ``likely``: what may explain a pod, tried before all.
    """

    changes: Mapping[str, str]
    before: Mapping[str, Hashable]
    replay: Callable[[Names], Fate]
    found: list[Names] = field(default_factory=list)
    likely: Callable[[str], Names] = lambda pod: frozenset()
    _replayed: dict[Names, Fate] = field(default_factory=dict)

    def of(self, pod: str) -> tuple[str, ...]:
        """The fewest changes without which the pod fares as before; NOT_ATTRIBUTED where these do not explain it."""
        try:
            names = self._names(pod)
        except _TooManyReplaysError:
            return NOT_ATTRIBUTED
        return tuple(self.changes[name] for name in self.changes if name in names) or NOT_ATTRIBUTED

    def _names(self, pod: str) -> Names:
        """No names where all changes together do not explain it."""
        enough = next((names for names in self._candidates(pod) if self._explains(names, pod)), frozenset[str]())
        if not enough:
            return enough
        candidates = [name for name in self.changes if name in enough]
        names = frozenset(self._fewest(pod, frozenset(), candidates, tried=False))
        self.found += [names] if names not in self.found else []
        return names

    def _candidates(self, pod: str) -> Iterator[Names]:
        yield from self.found
        if likely := self.likely(pod):
            yield likely
        yield frozenset(self.changes)

    def _fewest(self, pod: str, given: Names, names: Sequence[str], *, tried: bool) -> list[str]:
        """The fewest of these that explain a pod's fate together with those given, where all of them do (QuickXplain).

        ``tried``: whether those given may explain it alone.
        """
        if tried and self._explains(given, pod):
            return []
        if len(names) == 1:
            return list(names)
        half = len(names) // 2
        first, second = names[:half], names[half:]
        of_second = self._fewest(pod, given.union(first), second, tried=True)
        of_first = self._fewest(pod, given.union(of_second), first, tried=bool(of_second))
        return of_first + of_second

    def _explains(self, names: Names, pod: str) -> bool:
        """Whether the pod fares as before where these changes are as before."""
        if names not in self._replayed:
            if len(self._replayed) == MOST_REPLAYS:
                raise _TooManyReplaysError
            self._replayed[names] = self.replay(names)
        return self._replayed[names](pod) == self.before.get(pod)


class _TooManyReplaysError(Exception):
    pass


class TwoVersions(NamedTuple):
    """A cluster under two versions of kube-scheduler, and the rows of the table of what these changed."""

    first: Cluster
    second: Cluster
    rows: tuple[VersionChange, ...]

    def mixed(self, names: Names) -> Cluster:
        """The second with some changes as they are in the first."""
        return replace(self.second, version_mix=VersionMix(self.first.kube_version, names))

    def of_plugins(self, plugins: Container[str]) -> Names:
        """The rules of these plugins that changed."""
        return frozenset(_name(row) for row in self.rows if row.sort == "rule" and row.where in plugins)

    def changes(self) -> dict[str, str]:
        """All that may be another with the second version: its name in a mix -> how it is told."""
        gates = [FeatureGates(version.kube_version, version.feature_gates) for version in (self.first, self.second)]
        return {_name(row): _told(row) for row in self.rows if _counts(row, *gates)}


def _counts(row: VersionChange, *gates: FeatureGates) -> bool:
    """Whether it is no gate that is on, or off, in both versions."""
    return row.sort != "gate" or len({gate.enabled(row.where) for gate in gates}) > 1


def _name(change: VersionChange) -> str:
    return change.what if change.sort == "rule" else f"{change.sort} {change.where}"


def _told(change: VersionChange) -> str:
    """``StorageCapacityScoring``, ``TaintToleration: its message (#135023)``."""
    if change.sort == "gate":
        return change.where
    upstream = f" ({change.upstream})" if change.upstream else ""
    where = "" if change.where in change.what else f"{change.where}: "
    return f"{where}{change.what}{upstream}"


def explained(pods: Collection[str], causes: Causes, done: Callable[[int], None]) -> dict[str, tuple[str, ...]]:
    """Pod -> why it does not fare as before; those that are not known when the user stops are left out."""
    because: dict[str, tuple[str, ...]] = {}
    with suppress(KeyboardInterrupt):
        for pod in pods:
            because[pod] = causes.of(pod)
            done(1)
    return because
