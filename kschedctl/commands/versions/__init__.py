"""`versions`: what differs between versions of kube-scheduler?

`changes` collects the differences, which are declared beside the rules.
"""

from __future__ import annotations

from kschedctl.commands.versions import changes as study
from kschedctl.commands.versions.report import VersionChanges
from kschedctl.errors import UsageError


def version_changes(before: str = "", after: str = "") -> VersionChanges:
    """Return the differences between all versions of kube-scheduler, or between two of them.

    Versions as 1.33, for its newest patch, or 1.33.4. Raises UsageError for one alone, ConfigurationError for one that
    is not replayed.

    >>> version_changes("1.36", "1.36").changes
    ()
    """
    if not (before or after):
        return study.version_changes()
    if not (before and after):
        known = before or after
        raise UsageError(f"what is {known} to be compared with?", hint=f"kschedctl versions {known} 1.36")
    return study.compare_versions(before, after)
