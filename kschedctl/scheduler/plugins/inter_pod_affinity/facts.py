"""What stands behind a refusal of InterPodAffinity, with its words."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Fact


class NoPodToJoin(Fact, frozen=True):
    """A term of pod affinity selects no pod in the node's ``domain``.

    An empty ``selector`` selects all pods, None, which is that of a term without labelSelector, no pod at all.
    """

    selector: str | None
    key: str
    domain: str

    def words(self) -> str:
        """
        >>> NoPodToJoin("app=db", "zone", "a").words(), NoPodToJoin("", "zone", "a").words()
        ('no pod matching app=db in zone=a', 'no pod matching anything in zone=a')
        >>> NoPodToJoin(None, "zone", "a").words()
        'a term without labelSelector matches no pod'
        """
        if self.selector is None:
            return "a term without labelSelector matches no pod"
        return f"no pod matching {self.selector or 'anything'} in {self.key}={self.domain}"


class NoPodForAllTerms(Fact, frozen=True):
    """Each term of pod affinity selects some pod there, and no pod is selected by all of them."""

    def words(self) -> str:
        return "no pod matches all affinity terms here"


class PodInTheWay(Fact, frozen=True):
    """A ``pod`` in the node's ``domain`` from which anti-affinity keeps the incoming pod away.

    ``others`` counts further pods of this kind in the domain. All fields are empty if only a nominated pod is in the
    way. ``selector`` is the labelSelector of the anti-affinity term, empty if the term selects all pods. The term
    belongs to the existing pod if ``of_existing_pod`` is set, otherwise to the incoming pod.
    """

    pod: str = ""
    others: int = 0
    key: str = ""
    domain: str = ""
    selector: str = ""
    of_existing_pod: bool = False

    def words(self) -> str:
        """Return which pods are in the way, and whose anti-affinity with which selector says so.

        >>> print(PodInTheWay("shop/web", 2, "zone", "a", "app=db", of_existing_pod=True).words())
        shop/web and 2 more in zone=a, whose anti-affinity keeps out pods matching app=db
        >>> PodInTheWay("shop/web", 0, "zone", "a", "app=web").words()
        "shop/web in zone=a matches the pod's own anti-affinity (app=web)"
        >>> PodInTheWay().words()
        'a nominated pod is in the same topology'
        """
        if not self.pod:
            return "a nominated pod is in the same topology"
        pods = f"{self.pod}{f' and {self.others} more' * bool(self.others)} in {self.key}={self.domain}"
        if self.of_existing_pod:
            kept_out = f"pods matching {self.selector}" if self.selector else "all pods"
            return f"{pods}, whose anti-affinity keeps out {kept_out}"
        verb = "match" if self.others else "matches"
        return f"{pods} {verb} the pod's own anti-affinity ({self.selector or 'all pods'})"
