"""The report of `versions`: apiVersion kschedctl.dev/v1, kind VersionChanges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Literal

from msgspec.structs import replace

from kschedctl.api.kube_version import VERIFIED_MINOR, KubeVersion
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.text.counts import agreeing, counted

Basis = Literal["answers", "source", "release notes"]


class VersionChange(Document, frozen=True):
    """A difference between versions of kube-scheduler."""

    sort: str
    """rule, plugin or gate."""
    where: str
    """The plugin or feature gate, or "kube-scheduler"."""
    what: str
    """The aspect that differs."""
    since: tuple[str, ...]
    """The release that brought `after`, after those to which it was backported."""
    before: str
    """The state in the older version: of two compared ones, or the one before `since`."""
    after: str
    """The state in the newer version."""
    between: tuple[str, ...] = ()
    """If two versions are compared: the states that differ from both, each with the release that brought it."""
    switched: str = ""
    """For a feature gate or plugin: the release since which its default is that of `after`, if `before` has the other.
    Later releases may have changed its stage.
    """
    is_on: bool | None = None
    """For a feature gate or plugin: whether it is on by default after the change, if it was not before, or the
    opposite. None for other changes.
    """
    is_removed: bool = False
    """True if the feature gate no longer exists, so that a configuration that names it is rejected."""
    upstream: str = ""
    """Upstream's change, if it is known."""
    basis: Basis = "answers"
    """The evidence for the change: answers of real schedulers, source code or release notes."""


class VersionChanges(Report, frozen=True):
    """Differences between versions of kube-scheduler, newest first within each kind."""

    versions: tuple[str, ...]
    """The two versions that are compared, or all that are replayed."""
    compared: bool
    changes: tuple[VersionChange, ...] = ()
    kind: str = "VersionChanges"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the number of changes and the range of versions.

        If two versions are compared, the result is one part. It counts the features that are newly on or off by
        default, and the other differences.
        """
        versions = f"from {self.versions[0]} to {self.versions[-1]}"
        if not self.compared:
            return counted(len(self.changes), "change"), versions
        turned_on, turned_off = [
            list(chain.from_iterable(self.group_switched_features(on=on).values())) for on in (True, False)
        ]
        parts = []
        if turned_on:
            parts.append(f"{counted(len(turned_on), 'feature')} newly on by default")
        if turned_off:
            parts.append(f"{len(turned_off):,} newly off")
        other_count = len(self.changes) - len(turned_on) - len(turned_off)
        if other_count:
            other = "other " if parts else ""
            parts.append(counted(other_count, f"{other}difference"))
        return (f"{', '.join(parts) or 'No replayed differences'} {versions}",)

    @property
    def unverified(self) -> str:
        """A warning that a compared version is replayed only from its sources, and that some changes are not replayed.

        It is "" if the answers of a real scheduler were compared for both versions, or if all versions are listed.
        """
        if not self.compared:
            return ""
        names = [name for name in self.versions if KubeVersion.parse(name).minor > VERIFIED_MINOR]
        if not names:
            return ""
        text = f"kube-scheduler {names[-1]} is replayed from its sources, without a comparison with a real scheduler"
        not_replayed = sum(change.basis == "release notes" for change in self.changes)
        if not_replayed:
            are = agreeing(not_replayed, "is", "are")
            text += f"; {counted(not_replayed, 'change')} {are} not replayed"
        return text

    def group_switched_features(self, *, on: bool) -> dict[str, list[str]]:
        """Return the gates and plugins that are newly on (or off) by default, by the release that switched them.

        The newest release comes last.
        """
        switched = [change for change in self.changes if change.is_on is on]
        switched.sort(key=lambda change: [int(part) for part in change.switched.split(".")])
        features_by_release: dict[str, list[str]] = {}
        for change in switched:
            features_by_release.setdefault(change.switched, []).append(_name_switched_feature(change))
        return features_by_release

    def iter_consequences(self) -> Iterator[str]:
        """Yield sentences on what an upgrade between the versions changes, the most important first.

        These are features switched by default, removed gates, and changed rules. Kinds without changes are left out.
        """
        for on, word in ((True, "on"), (False, "off")):
            for release, features in self.group_switched_features(on=on).items():
                yield f"newly {word} by default since {release}: {', '.join(features)}"
        removed = [change.where for change in self.changes if change.is_removed]
        if removed:
            yield f"gates removed (a configuration that sets them is rejected): {', '.join(removed)}"
        rules = Counter(change.where for change in self.changes if change.sort == "rule")
        if rules:
            by_plugin = ", ".join(f"{where} ({number:,})" for where, number in rules.most_common())
            yield f"rules and messages that differ, by component: {by_plugin}"

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the numbers of changes by kind.

        If two versions are compared, the consequences of an upgrade are warnings.
        """
        figures = dict(Counter(change.sort for change in self.changes))
        if not self.compared:
            return replace(summary, figures=figures)
        return replace(summary, warnings=tuple(self.iter_consequences()), figures=figures)


def _name_switched_feature(change: VersionChange) -> str:
    """Return the name of a gate, or the name of a plugin after the word "plugin"."""
    return f"plugin {change.where}" if change.sort == "plugin" else change.where
