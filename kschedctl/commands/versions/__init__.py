"""The command `versions`: what differs between versions of kube-scheduler?

`changes` collects the differences, which are declared next to the code that implements them.
"""

from __future__ import annotations

from kschedctl.commands.versions import changes as study
from kschedctl.commands.versions.report import VersionChanges
from kschedctl.errors import UsageError


def version_changes(before: str = "", after: str = "") -> VersionChanges:
    """Return what differs between two versions of kube-scheduler, or between all of them.

    A version is a release such as `1.33.4`, or `1.33` for its newest patch. Raises UsageError for a single version, and
    ConfigurationError for a version that is not replayed.

    >>> version_changes("1.36", "1.36").changes
    ()
    """
    if not (before or after):
        return study.list_all_changes()
    if not (before and after):
        known = before or after
        raise UsageError(f"what is {known} to be compared with?", hint=f"kschedctl versions {known} 1.36")
    return study.compare_versions(before, after)
