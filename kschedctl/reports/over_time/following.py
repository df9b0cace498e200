"""The scheduler followed pod by pod, as a document: apiVersion kschedctl.dev/v1, kind Following."""

from __future__ import annotations

import msgspec

from kschedctl.reports.document import Document
from kschedctl.reports.unknown import UnknownKind


class FollowedStep(Document, frozen=True, omit_defaults=True):
    """One pod tried once: where it was put, ``node``, or why nowhere.

    ``feasible``: how many nodes fit; where several do ``total``: node -> its score, and ``best``: the highest. Where
    none does: ``fit_error_message``, kube-scheduler's own, and the plugins that refused the pod; ``tied_candidates``:
    where preemption would cost least, of which the pod was ``nominated`` for the first, ``victims`` went, and pods of
    lower priority lost their nomination for the node. ``gated``: the plugin that holds it back; ``gone``: it was
    preempted before its turn; ``error``: a plugin failed, or no profile serves it.
    """

    pod: str
    feasible: int | None = None
    total: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    node: str = ""
    fit_error_message: str = ""
    unschedulable_plugins: tuple[str, ...] = ()
    tied_candidates: tuple[str, ...] = ()
    nominated: str = ""
    victims: tuple[str, ...] = ()
    nominations_cleared: tuple[str, ...] = ()
    gated: str = ""
    gone: bool = False
    error: str = ""


class FollowingReport(Document, frozen=True):
    """``not_replayed``: what the configuration runs and this answer leaves out; ``unknown``: what was not read."""

    steps: tuple[FollowedStep, ...]
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Following"
