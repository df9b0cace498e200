"""Attribution of a pod's changed fate to version changes, by replaying mixes of both versions."""

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
"""Returns what becomes of a pod."""
MAX_REPLAYS = 200
NOT_ATTRIBUTED = ("not attributed",)


@dataclass
class Causes:
    """The search for the version changes that explain the fates of pods."""

    changes: Mapping[str, str]
    """The description of each change by name."""
    before: Mapping[str, Hashable]
    """The fates under the first version."""
    replay: Callable[[Names], Fate]
    """Returns the fates under the second version with some changes as in the first."""
    known_sets: list[Names] = field(default_factory=list)
    """Sets of changes that explained other pods, tried first."""
    guess: Callable[[str], Names] = lambda pod: frozenset()
    """Returns the changes that probably explain a pod, tried before all changes."""
    _replayed: dict[Names, Fate] = field(default_factory=dict)

    def explain_pod(self, pod: str) -> tuple[str, ...]:
        """Return the fewest changes without which the pod fares as before, or NOT_ATTRIBUTED."""
        try:
            names = self._find_minimal_set(pod)
        except _TooManyReplaysError:
            return NOT_ATTRIBUTED
        return tuple(self.changes[name] for name in self.changes if name in names) or NOT_ATTRIBUTED

    def _find_minimal_set(self, pod: str) -> Names:
        """Return the minimal set of changes, empty if all changes together do not explain the pod."""
        enough = next((names for names in self._iter_candidates(pod) if self._explains(names, pod)), frozenset[str]())
        if not enough:
            return enough
        candidates = [name for name in self.changes if name in enough]
        names = frozenset(self._minimize(pod, frozenset(), candidates, tried=False))
        self.known_sets += [names] if names not in self.known_sets else []
        return names

    def _iter_candidates(self, pod: str) -> Iterator[Names]:
        yield from self.known_sets
        if likely := self.guess(pod):
            yield likely
        yield frozenset(self.changes)

    def _minimize(self, pod: str, given: Names, names: Sequence[str], *, tried: bool) -> list[str]:
        """Return the fewest of ``names`` that explain the pod's fate together with ``given`` (QuickXplain).

        All of them together must explain it. ``tried`` says whether ``given`` alone may explain it.
        """
        if tried and self._explains(given, pod):
            return []
        if len(names) == 1:
            return list(names)
        half = len(names) // 2
        first, second = names[:half], names[half:]
        of_second = self._minimize(pod, given.union(first), second, tried=True)
        of_first = self._minimize(pod, given.union(of_second), first, tried=bool(of_second))
        return of_first + of_second

    def _explains(self, names: Names, pod: str) -> bool:
        """Return whether the pod fares as before if these changes are as before."""
        if names not in self._replayed:
            if len(self._replayed) == MAX_REPLAYS:
                raise _TooManyReplaysError
            self._replayed[names] = self.replay(names)
        return self._replayed[names](pod) == self.before.get(pod)


class _TooManyReplaysError(Exception):
    pass


class TwoVersions(NamedTuple):
    """A cluster under two versions of kube-scheduler, and the differences between them."""

    first: Cluster
    second: Cluster
    rows: tuple[VersionChange, ...]

    def mix(self, names: Names) -> Cluster:
        """Return the second version with some changes as in the first."""
        return replace(self.second, version_mix=VersionMix(self.first.kube_version, names))

    def find_plugin_changes(self, plugins: Container[str]) -> Names:
        """Return the changed rules of these plugins."""
        return frozenset(_mix_name(row) for row in self.rows if row.sort == "rule" and row.where in plugins)

    def describe_changes(self) -> dict[str, str]:
        """Return all changes that may matter, by name in a mix, with their descriptions."""
        gates = [FeatureGates(version.kube_version, version.feature_gates) for version in (self.first, self.second)]
        return {_mix_name(row): _describe_row(row) for row in self.rows if _is_relevant(row, *gates)}


def _is_relevant(row: VersionChange, *gates: FeatureGates) -> bool:
    """Return whether the row is not a feature gate with the same state in both versions."""
    return row.sort != "gate" or len({gate.enabled(row.where) for gate in gates}) > 1


def _mix_name(change: VersionChange) -> str:
    return change.what if change.sort == "rule" else f"{change.sort} {change.where}"


def _describe_row(change: VersionChange) -> str:
    """Describe a change: ``StorageCapacityScoring``, ``TaintToleration: its message (#135023)``."""
    if change.sort == "gate":
        return change.where
    upstream = f" ({change.upstream})" if change.upstream else ""
    where = "" if change.where in change.what else f"{change.where}: "
    return f"{where}{change.what}{upstream}"


def explain_pods(pods: Collection[str], causes: Causes, done: Callable[[int], None]) -> dict[str, tuple[str, ...]]:
    """Return why each pod does not fare as before. Pods not reached before an interruption are missing."""
    because: dict[str, tuple[str, ...]] = {}
    with suppress(KeyboardInterrupt):
        for pod in pods:
            because[pod] = causes.explain_pod(pod)
            done(1)
    return because
