"""Find the version changes that cause a pod's different outcome, by replaying mixes of two versions."""

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
OutcomeLookup = Callable[[str], Hashable]
"""Function from a pod's key to the outcome that is compared, such as the pod's node and message."""
MAX_REPLAYS = 200
"""The maximum number of mixes that are replayed."""
NOT_ATTRIBUTED = ("not attributed",)
"""The causes of a pod whose outcome no set of changes explains."""


@dataclass
class CauseSearch:
    """The search for the version changes that cause the different outcomes of pods."""

    changes: Mapping[str, str]
    """Name of a change -> its description."""
    before: Mapping[str, Hashable]
    """Pod -> its outcome under the first version."""
    replay: Callable[[Names], OutcomeLookup]
    """Replays the second version with some changes reverted to the first, and returns the outcomes."""
    known_sets: list[Names] = field(default_factory=list)
    """Sets of changes that explained other pods. They are tried first."""
    guess_changes: Callable[[str], Names] = lambda pod: frozenset()
    """Guesses which changes explain a pod. The guess is tried before all changes."""
    _replayed: dict[Names, OutcomeLookup] = field(default_factory=dict)

    def explain_pod(self, pod: str) -> tuple[str, ...]:
        """Describe the fewest changes that have to be reverted to give the pod its outcome under the first version.

        Return NOT_ATTRIBUTED if not even reverting all changes helps, or after too many replays.
        """
        try:
            names = self._find_minimal_changes(pod)
        except _TooManyReplaysError:
            return NOT_ATTRIBUTED
        return tuple(self.changes[name] for name in self.changes if name in names) or NOT_ATTRIBUTED

    def _find_minimal_changes(self, pod: str) -> Names:
        """Find a minimal set of changes that explains the pod's outcome, and remember it in `known_sets`.

        The set is empty if even all changes together do not explain the outcome.
        """
        sufficient_sets = (names for names in self._iter_candidate_sets(pod) if self._explains_outcome(names, pod))
        sufficient_set = next(sufficient_sets, None)
        if not sufficient_set:
            return frozenset()
        candidates = [name for name in self.changes if name in sufficient_set]
        minimal_set = frozenset(self._minimize_changes(pod, frozenset(), candidates, check_fixed=False))
        if minimal_set not in self.known_sets:
            self.known_sets.append(minimal_set)
        return minimal_set

    def _iter_candidate_sets(self, pod: str) -> Iterator[Names]:
        """Yield sets of changes that may explain the pod: sets that explained other pods, a guess, and all changes."""
        yield from self.known_sets
        guess = self.guess_changes(pod)
        if guess:
            yield guess
        yield frozenset(self.changes)

    def _minimize_changes(self, pod: str, fixed: Names, names: Sequence[str], *, check_fixed: bool) -> list[str]:
        """Return the fewest of `names` that explain the pod's outcome together with `fixed`.

        All of `names` together with `fixed` have to explain the outcome. With `check_fixed`, no names are returned if
        `fixed` alone explains it. The algorithm is QuickXplain.
        """
        if check_fixed and self._explains_outcome(fixed, pod):
            return []
        if len(names) == 1:
            return list(names)
        # Find what is needed of the second half with all of the first half, and then what is needed of the first half.
        half = len(names) // 2
        first, second = names[:half], names[half:]
        from_second = self._minimize_changes(pod, fixed.union(first), second, check_fixed=True)
        from_first = self._minimize_changes(pod, fixed.union(from_second), first, check_fixed=bool(from_second))
        return from_first + from_second

    def _explains_outcome(self, names: Names, pod: str) -> bool:
        """Return whether reverting these changes gives the pod the outcome that it has under the first version.

        Each set of changes is replayed once. Raises _TooManyReplaysError after MAX_REPLAYS replays.
        """
        if names not in self._replayed:
            if len(self._replayed) == MAX_REPLAYS:
                raise _TooManyReplaysError
            self._replayed[names] = self.replay(names)
        return self._replayed[names](pod) == self.before.get(pod)


class _TooManyReplaysError(Exception):
    """MAX_REPLAYS mixes were replayed."""


class TwoVersions(NamedTuple):
    """A cluster under two versions of kube-scheduler, and the changes between them."""

    first: Cluster
    second: Cluster
    changes: tuple[VersionChange, ...]

    def build_mix(self, names: Names) -> Cluster:
        """Build the cluster under the second version, with the named changes reverted to the first version."""
        return replace(self.second, version_mix=VersionMix(self.first.kube_version, names))

    def find_plugin_changes(self, plugins: Container[str]) -> Names:
        """Return the names, as `build_mix` takes them, of the changed rules of these plugins."""
        return frozenset(
            _build_mix_name(change) for change in self.changes if change.sort == "rule" and change.where in plugins
        )

    def describe_changes(self) -> dict[str, str]:
        """Return descriptions of the changes that may matter, by the names that `build_mix` takes."""
        gates = [FeatureGates(version.kube_version, version.feature_gates) for version in (self.first, self.second)]
        return {
            _build_mix_name(change): _describe_change(change)
            for change in self.changes
            if _is_relevant_change(change, gates)
        }


def _is_relevant_change(change: VersionChange, gates_by_version: Sequence[FeatureGates]) -> bool:
    """Return whether the change may matter. A feature gate matters only if the versions set it differently."""
    if change.sort != "gate":
        return True
    return len({gates.enabled(change.where) for gates in gates_by_version}) > 1


def _build_mix_name(change: VersionChange) -> str:
    """Build the name of the change in a mix of versions."""
    return change.what if change.sort == "rule" else f"{change.sort} {change.where}"


def _describe_change(change: VersionChange) -> str:
    """Describe a version change, such as "StorageCapacityScoring" or "TaintToleration: its message (#135023)"."""
    if change.sort == "gate":
        return change.where
    upstream = f" ({change.upstream})" if change.upstream else ""
    subject = "" if change.where in change.what else f"{change.where}: "
    return f"{subject}{change.what}{upstream}"


def find_causes_by_pod(
    pods: Collection[str], search: CauseSearch, advance: Callable[[int], None]
) -> dict[str, tuple[str, ...]]:
    """Return the changes that cause each pod's different outcome, by pod.

    After an interruption, return the pods explained so far. `advance` is called with 1 for each pod.
    """
    causes_by_pod: dict[str, tuple[str, ...]] = {}
    with suppress(KeyboardInterrupt):
        for pod in pods:
            causes_by_pod[pod] = search.explain_pod(pod)
            advance(1)
    return causes_by_pod
