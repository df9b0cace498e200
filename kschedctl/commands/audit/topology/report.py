"""The section of an audit about where the pods of workloads are: kind AuditSection, name topology."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.section import Section


class LostDomain(Document, frozen=True):
    """If a ``domain`` is lost: so many pods with it, and the ``skew`` of those in the other domains."""

    domain: str
    lost: int
    skew: int


class WorkloadDomains(Document, frozen=True, kw_only=True):
    """Where the pods of a workload are by one ``key``: in ``used`` of ``domains``, ``unlabelled`` ones in none.

    ``skew``: the most pods of a domain less the fewest. ``most``: the domain with ``most_pods``. ``losses``: what the
    loss of each means, the gravest first; of many domains only of the gravest.
    """

    key: str
    domains: int
    used: int
    unlabelled: int
    skew: int
    most: str
    most_pods: int
    losses: tuple[LostDomain, ...] = ()


class PlacedWorkload(Document, frozen=True):
    """A workload with ``pods`` on nodes."""

    workload: str
    pods: int
    by_key: tuple[WorkloadDomains, ...]


class BrokenDomain(Document, frozen=True, kw_only=True):
    """If a ``domain`` is lost: so many of the pods that are counted, and the ``skew`` of those that are left.

    ``stranded``: how many cannot come back under the constraint when the domain's nodes are gone;
    ``stranded_while_down``: while they are there, but take no pods.
    """

    domain: str
    lost: int
    skew: int
    stranded: int = 0
    stranded_while_down: int = 0


class SpreadPromise(Document, frozen=True, kw_only=True):
    """A topology spread constraint of a workload's pods against what there is, counted as kube-scheduler counts.

    ``domains``: those that count. The constraint ``holds`` while ``skew`` is not more than ``max_skew``; with fewer
    domains than ``min_domains`` the fewest pods count as 0. ``losses``: as of WorkloadDomains.
    """

    workload: str
    key: str
    when_unsatisfiable: str
    max_skew: int
    min_domains: int
    """1 if the constraint does not set it."""
    domains: int
    pods: int
    skew: int
    holds: bool
    most: str = ""
    most_pods: int = 0
    least: str = ""
    least_pods: int = 0
    min_domains_set: bool = False
    """Whether the constraint sets minDomains."""
    least_why: str = ""
    """Why the domain with the fewest pods counts although the workload's pods cannot go there, if they cannot."""
    least_policy: str = ""
    """The constraint's field by which that domain counts, nodeTaintsPolicy or nodeAffinityPolicy."""
    losses: tuple[BrokenDomain, ...] = ()


class TopologySection(Section, frozen=True, kw_only=True, tag="topology"):
    """``workloads`` of at least two pods on nodes were looked at, ``constraints`` of them counted, by ``keys``.

    ``placed``: the workloads in a single domain, or those that were asked about; ``promises``: what does not hold, or
    would not after a loss, or all that was asked about.
    """

    keys: tuple[str, ...] = ()
    workloads: int = 0
    constraints: int = 0
    placed: tuple[PlacedWorkload, ...] = ()
    promises: tuple[SpreadPromise, ...] = ()
