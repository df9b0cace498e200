"""All facts that plugins give, as reports hold them."""

from __future__ import annotations

from typing import cast

from kschedctl.scheduler.framework.facts import Fact, Said, TopologyLabelMissing
from kschedctl.scheduler.plugins.dynamic_resources.facts import (
    ClaimsUnusable,
    DeviceSearchFailed,
    DevicesUnfit,
    ResourceNotOffered,
)
from kschedctl.scheduler.plugins.inter_pod_affinity.facts import NoPodForAllTerms, NoPodToJoin, PodInTheWay
from kschedctl.scheduler.plugins.node_affinity import NodeAffinityUnmet
from kschedctl.scheduler.plugins.node_declared_features import FeaturesNotDeclared
from kschedctl.scheduler.plugins.node_name import AnotherNodeNamed
from kschedctl.scheduler.plugins.node_ports import HostPortHeld
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.node_unschedulable import Cordoned
from kschedctl.scheduler.plugins.node_volume_limits.facts import TooManyVolumes
from kschedctl.scheduler.plugins.pod_topology_spread.facts import TooSkewed
from kschedctl.scheduler.plugins.taint_toleration import UntoleratedTaint
from kschedctl.scheduler.plugins.volume_binding.facts import (
    ClaimsUnbound,
    NotEnoughStorage,
    NoVolume,
    ProvisionedElsewhere,
    VolumeMissing,
    VolumeOutOfReach,
)
from kschedctl.scheduler.plugins.volume_restrictions import ClaimInUse, DiskMounted
from kschedctl.scheduler.plugins.volume_zone import VolumeInOtherZone

AnyFact = (
    Said
    | Insufficient
    | TooManyPods
    | Cordoned
    | UntoleratedTaint
    | AnotherNodeNamed
    | HostPortHeld
    | FeaturesNotDeclared
    | NodeAffinityUnmet
    | TopologyLabelMissing
    | TooSkewed
    | NoPodToJoin
    | NoPodForAllTerms
    | PodInTheWay
    | TooManyVolumes
    | ClaimsUnbound
    | VolumeOutOfReach
    | ProvisionedElsewhere
    | NoVolume
    | NotEnoughStorage
    | VolumeMissing
    | DiskMounted
    | ClaimInUse
    | VolumeInOtherZone
    | ClaimsUnusable
    | ResourceNotOffered
    | DevicesUnfit
    | DeviceSearchFailed
)


def as_fact(found: Fact | str | None) -> AnyFact | None:
    """What a plugin gives as fact: one of other packages may give words alone.

    >>> as_fact("too loud"), as_fact(Cordoned()), as_fact("")
    (Said(text='too loud', nominated=False), Cordoned(nominated=False), None)
    """
    if isinstance(found, str):
        return Said(found) if found else None
    return cast(AnyFact | None, found)
