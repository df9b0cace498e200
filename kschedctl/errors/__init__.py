"""The errors that a user can cause. Each says what went wrong, where, and what to do.

KschedctlError            exit code 2 unless a subclass says otherwise
├── UsageError            an invalid command line, such as a pod that does not exist or is ambiguous
├── InputError            a file or document that cannot be used, with the file, document and field
├── ConfigurationError    a KubeSchedulerConfiguration that kube-scheduler would reject
├── ThirdPartyError       a scheduler plugin of another package that does not work
└── ClusterError          exit code 3: the cluster cannot be reached or denies the request
"""

from __future__ import annotations

from kschedctl.text.printable import strip_credentials


class KschedctlError(Exception):
    """An expected failure. Its text is one line in which URLs have no passwords."""

    exit_code = 2
    also: tuple[KschedctlError, ...] = ()
    """More errors that are reported at the same time, each on a line of its own."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = map(strip_credentials, (what, where, hint))
        super().__init__(self.what)

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line} ({self.hint})" if self.hint else line


class UsageError(KschedctlError):
    """A request for something that does not exist or is ambiguous."""


class InputError(KschedctlError):
    """An unusable file, document or field, which `where` names, with its line in the file if it is known."""

    def __init__(self, what: str, *, where: str = "", hint: str = "", line: int | None = None) -> None:
        super().__init__(what, where=where, hint=hint)
        self.line = line


class ConfigurationError(KschedctlError):
    """A scheduler configuration that kube-scheduler would reject."""


class ThirdPartyError(KschedctlError):
    """A scheduler plugin of another package that is enabled and does not work."""


class ClusterError(KschedctlError):
    """A cluster that cannot be reached or denies the request."""

    exit_code = 3
