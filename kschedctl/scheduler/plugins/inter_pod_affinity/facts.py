"""Facts behind the rejections of InterPodAffinity."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Fact


class NoPodToJoin(Fact, frozen=True):
    """A term of pod affinity that selects no pod in the node's domain."""

    selector: str | None
    """The labelSelector. An empty one selects all pods. None (no labelSelector) selects no pod."""
    key: str
    domain: str

    def words(self) -> str:
        """Return the fact as a sentence.

        >>> NoPodToJoin("app=db", "zone", "a").words(), NoPodToJoin("", "zone", "a").words()
        ('no pod matching app=db in zone=a', 'no pod matching anything in zone=a')
        >>> NoPodToJoin(None, "zone", "a").words()
        'a term without labelSelector matches no pod'
        """
        if self.selector is None:
            return "a term without labelSelector matches no pod"
        return f"no pod matching {self.selector or 'anything'} in {self.key}={self.domain}"


class NoPodForAllTerms(Fact, frozen=True):
    """A domain where each term of pod affinity selects some pod, but no pod is selected by all of them."""

    def words(self) -> str:
        return "no pod matches all affinity terms here"


class PodInTheWay(Fact, frozen=True):
    """A pod in the node's domain from which anti-affinity keeps the incoming pod away.

    All fields are empty if only a nominated pod is in the way.
    """

    pod: str = ""
    others: int = 0
    """The number of further such pods in the domain."""
    key: str = ""
    domain: str = ""
    selector: str = ""
    """The labelSelector of the anti-affinity term, empty if the term selects all pods."""
    of_existing_pod: bool = False
    """Whether the term belongs to the existing pod, not to the incoming pod."""

    def words(self) -> str:
        """Return which pods are in the way, and whose anti-affinity with which selector rejects the node.

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
