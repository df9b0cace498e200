"""The few errors that a user can cause, each with what went wrong, where, and what to do.

KschedctlError            exit 2 unless a subclass says otherwise
├── UsageError            the command line makes no sense: no such pod, two pods of that name
├── InputError            a file or document cannot be used; carries file, document and field
├── ConfigurationError    a KubeSchedulerConfiguration that kube-scheduler would refuse
├── ThirdPartyError       a scheduler plugin of another package does not work
└── ClusterError          exit 3: the cluster could not be reached or refused us
"""

from __future__ import annotations

from kschedctl.text.urls import without_user


class KschedctlError(Exception):
    """An expected failure. ``str()`` of it is one line; ``hint`` says what to do, when something is known.

    A password in a URL is in none of them. ``also``: what is wrong besides, where several things are told at once,
    each in a line of its own.
    """

    exit_code = 2
    also: tuple[KschedctlError, ...] = ()

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = map(without_user, (what, where, hint))
        super().__init__(self.what)

    def __str__(self) -> str:
        line = f"{self.where}: {self.what}" if self.where else self.what
        return f"{line} ({self.hint})" if self.hint else line


class UsageError(KschedctlError):
    """What was asked for does not exist or is ambiguous."""


class InputError(KschedctlError):
    """A file, document or field that cannot be used; ``where`` names it."""


class ConfigurationError(KschedctlError):
    """A scheduler configuration that kube-scheduler itself would refuse."""


class ThirdPartyError(KschedctlError):
    """A plugin that another package registers, and that the configuration enables, does not work; names both."""


class ClusterError(KschedctlError):
    """The cluster could not be reached, or refused us."""

    exit_code = 3
