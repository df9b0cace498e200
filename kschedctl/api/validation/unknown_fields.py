"""Fields in a manifest that the API does not know because they are misspelled or in the wrong place.

Upstream: strict decoding in sigs.k8s.io/json, which kubectl requests unless --validate says otherwise. The known fields
are those of pods, of objects with a pod template, and of objects that affect where pods are placed. They come from
types.go of core, apps, batch, policy, scheduling, storage and autoscaling in staging/src/k8s.io/api, from
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go (v1.36), and for Karpenter's v1 and v1beta1 from pkg/apis of
sigs.k8s.io/karpenter v1.14.1 and v0.37.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from kschedctl.api.api_versions import get_group
from kschedctl.api.field_errors import Path, format_path
from kschedctl.api.json_values import JsonObject

POD_HOLDERS = frozenset(
    {
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
    }
)
"""The kinds that are a pod or contain a pod template."""
KARPENTER_KINDS = frozenset({"NodePool", "NodeClaim", "NodeOverlay"})
"""Kinds of Karpenter whose names occur in other API groups as well."""
KARPENTER_GROUP = "karpenter.sh"
_TYPO_SIMILARITY = 0.8
"""The similarity, from 0 to 1, from which on a name is taken for a typo of another."""
_GUESS_SIMILARITY = 0.7
"""The similarity from which on a name may be a typo, if there is no better explanation."""
_DIRECTIVE = "$"
"""The prefix of directives in strategic merge patches."""
MAX_SHOWN_LENGTH = 200
"""The number of characters of a name that are shown."""


class UnknownField(NamedTuple):
    """A field that the API does not know."""

    path: Path
    kind: str
    """The kind of the object."""
    type_name: str
    """The type that contains the field."""

    def __str__(self) -> str:
        shown = tuple(
            f"{str(step)[:MAX_SHOWN_LENGTH]}…" if len(str(step)) > MAX_SHOWN_LENGTH else step for step in self.path
        )
        return f'unknown field "{format_path(shown)}"'

    @property
    def suggested_name(self) -> str:
        """The most similar field of the same type, or "".

        A field that belongs to another place has to be more similar, since it is probably not a typo.
        """
        return self._find_similar_field(_TYPO_SIMILARITY if self.proper_place else _GUESS_SIMILARITY)

    @property
    def proper_place(self) -> str:
        """The place in the object to which a field of this name belongs, or ""."""
        return _map_fields_to_closest_places(self.kind).get(str(self.path[-1]), "")

    @property
    def advice(self) -> str:
        """Advice on what to do about the field, or "" if there is no guess.

        >>> fields = iter_unknown_fields({"kind": "Deployment", "spec": {"tolerations": [], "replica": 3}})
        >>> [field.advice for field in fields]
        ['move it to spec.template.spec', 'did you mean "replicas"?']
        """
        if self.suggested_name:
            return f'did you mean "{self.suggested_name}"?'
        return f"move it to {self.proper_place}" if self.proper_place else ""

    def _find_similar_field(self, cutoff: float) -> str:
        """Return the type's field that is most similar to the unknown one, or "" if none reaches the cutoff."""
        names_by_lowercase = {name.lower(): name for name in get_fields_by_type()[self.type_name]}
        matches = get_close_matches(str(self.path[-1]).lower(), names_by_lowercase, n=1, cutoff=cutoff)
        return names_by_lowercase[matches[0]] if matches else ""


def iter_unknown_fields(document: JsonObject) -> Iterator[UnknownField]:
    """Yield the fields that the API does not know, in the order of the document.

    A document of a kind without a known schema yields nothing.

    >>> found = iter_unknown_fields({"kind": "Pod", "spec": {"containers": [{"name": "web", "imagee": "nginx"}]}})
    >>> [str(field) for field in found]
    ['unknown field "spec.containers[0].imagee"']
    """
    kind = str(document.get("kind", ""))
    if _has_known_schema(kind, str(document.get("apiVersion", ""))):
        yield from _iter_unknown_fields_of_value(document, kind, type_name=kind, path=())


def _has_known_schema(kind: str, api_version: str) -> bool:
    """Return whether the fields of objects of the kind are known.

    Names of types that are only parts of objects, such as PodSpec, are no kinds.
    """
    # Other projects have kinds with the names of Karpenter's kinds, but with other fields
    if kind in KARPENTER_KINDS and get_group(api_version) != KARPENTER_GROUP:
        return False
    fields = get_fields_by_type().get(kind, ())
    return "apiVersion" in fields  # which only top-level objects have


def _iter_unknown_fields_of_value(value: object, kind: str, type_name: str, path: Path) -> Iterator[UnknownField]:
    """Yield the unknown fields in a value of an API type. If the value is a list, each of its items is of this type.

    ``path`` is the path of the value in an object of the kind. Patch directives such as ``$patch`` are not reported.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_unknown_fields_of_value(item, kind, type_name, (*path, index))
    elif isinstance(value, Mapping):
        fields = get_fields_by_type()[type_name]
        for name, inner in value.items():
            field_path = (*path, str(name))
            if name in fields:
                inner_type = fields[name]
                if inner_type:  # otherwise, the value may hold anything
                    yield from _iter_unknown_fields_of_value(inner, kind, inner_type, field_path)
            elif not str(name).startswith(_DIRECTIVE):
                yield UnknownField(field_path, kind, type_name)


@cache
def _map_fields_to_closest_places(kind: str) -> dict[str, str]:
    """Return, for each field name in a kind, the place closest to the root at which the field is allowed.

    Hints name this place for a misplaced field.
    """
    places: dict[str, str] = {}
    level: list[tuple[str, Path]] = [(kind, ())]
    seen = {kind, "Volume"}  # the sources of volumes have too many common field names
    while level:  # one level of nesting after the other, so that the closest place of a field is stored first
        for type_name, path in level:
            for name in get_fields_by_type()[type_name]:
                places.setdefault(name, format_path(path) or "the root of the object")
        next_level: list[tuple[str, Path]] = []
        for type_name, path in level:
            for name, field_type in get_fields_by_type()[type_name].items():
                if field_type and field_type not in seen:
                    next_level.append((field_type, (*path, name)))
        level = next_level
        seen |= {type_name for type_name, _ in level}
    return places


TYPES = """
Pod: apiVersion kind metadata:ObjectMeta spec:PodSpec status
PodTemplateSpec: metadata:ObjectMeta spec:PodSpec
PodTemplate: apiVersion kind metadata:ObjectMeta template:PodTemplateSpec
ReplicationController: apiVersion kind metadata:ObjectMeta spec:ReplicationControllerSpec status
ReplicationControllerSpec: replicas minReadySeconds selector template:PodTemplateSpec
ReplicaSet: apiVersion kind metadata:ObjectMeta spec:ReplicaSetSpec status
ReplicaSetSpec: replicas minReadySeconds selector:LabelSelector template:PodTemplateSpec
Deployment: apiVersion kind metadata:ObjectMeta spec:DeploymentSpec status
DeploymentSpec: replicas selector:LabelSelector template:PodTemplateSpec strategy:DeploymentStrategy minReadySeconds
    revisionHistoryLimit paused progressDeadlineSeconds
DeploymentStrategy: type rollingUpdate:RollingUpdateDeployment
RollingUpdateDeployment: maxUnavailable maxSurge
StatefulSet: apiVersion kind metadata:ObjectMeta spec:StatefulSetSpec status
StatefulSetSpec: replicas selector:LabelSelector template:PodTemplateSpec
    volumeClaimTemplates:PersistentVolumeClaim serviceName podManagementPolicy
    updateStrategy:StatefulSetUpdateStrategy revisionHistoryLimit minReadySeconds
    persistentVolumeClaimRetentionPolicy:StatefulSetPersistentVolumeClaimRetentionPolicy ordinals:StatefulSetOrdinals
StatefulSetUpdateStrategy: type rollingUpdate:RollingUpdateStatefulSetStrategy
RollingUpdateStatefulSetStrategy: partition maxUnavailable
StatefulSetPersistentVolumeClaimRetentionPolicy: whenDeleted whenScaled
StatefulSetOrdinals: start
DaemonSet: apiVersion kind metadata:ObjectMeta spec:DaemonSetSpec status
DaemonSetSpec: selector:LabelSelector template:PodTemplateSpec updateStrategy:DaemonSetUpdateStrategy minReadySeconds
    revisionHistoryLimit
DaemonSetUpdateStrategy: type rollingUpdate:RollingUpdateDaemonSet
RollingUpdateDaemonSet: maxUnavailable maxSurge
Job: apiVersion kind metadata:ObjectMeta spec:JobSpec status
JobSpec: parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit
    backoffLimitPerIndex maxFailedIndexes selector:LabelSelector manualSelector template:PodTemplateSpec
    ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy
CronJob: apiVersion kind metadata:ObjectMeta spec:CronJobSpec status
CronJobSpec: schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend jobTemplate:JobTemplateSpec
    successfulJobsHistoryLimit failedJobsHistoryLimit
JobTemplateSpec: metadata:ObjectMeta spec:JobSpec
ObjectMeta: name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp
    deletionGracePeriodSeconds labels annotations ownerReferences:OwnerReference finalizers managedFields
OwnerReference: apiVersion kind name uid controller blockOwnerDeletion
PodSpec: volumes:Volume initContainers:Container containers:Container ephemeralContainers:EphemeralContainer
    restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName
    serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace
    securityContext:PodSecurityContext imagePullSecrets:LocalObjectReference hostname subdomain affinity:Affinity
    schedulerName tolerations:Toleration hostAliases:HostAlias priorityClassName priority dnsConfig:PodDNSConfig
    readinessGates:PodReadinessGate runtimeClassName enableServiceLinks preemptionPolicy overhead
    topologySpreadConstraints:TopologySpreadConstraint setHostnameAsFQDN os:PodOS hostUsers
    schedulingGates:PodSchedulingGate resourceClaims:PodResourceClaim resources:ResourceRequirements
    hostnameOverride schedulingGroup:PodSchedulingGroup
Volume: name hostPath:HostPathVolumeSource emptyDir:EmptyDirVolumeSource
    gcePersistentDisk:GCEPersistentDiskVolumeSource awsElasticBlockStore:AWSElasticBlockStoreVolumeSource
    gitRepo:GitRepoVolumeSource secret:SecretVolumeSource nfs:NFSVolumeSource iscsi:ISCSIVolumeSource
    glusterfs:GlusterfsVolumeSource persistentVolumeClaim:PersistentVolumeClaimVolumeSource rbd:RBDVolumeSource
    flexVolume:FlexVolumeSource cinder:CinderVolumeSource cephfs:CephFSVolumeSource flocker:FlockerVolumeSource
    downwardAPI:DownwardAPIVolumeSource fc:FCVolumeSource azureFile:AzureFileVolumeSource
    configMap:ConfigMapVolumeSource vsphereVolume:VsphereVirtualDiskVolumeSource quobyte:QuobyteVolumeSource
    azureDisk:AzureDiskVolumeSource photonPersistentDisk:PhotonPersistentDiskVolumeSource
    projected:ProjectedVolumeSource portworxVolume:PortworxVolumeSource scaleIO:ScaleIOVolumeSource
    storageos:StorageOSVolumeSource csi:CSIVolumeSource ephemeral:EphemeralVolumeSource image:ImageVolumeSource
HostPathVolumeSource: path type
EmptyDirVolumeSource: medium sizeLimit
GCEPersistentDiskVolumeSource: pdName fsType partition readOnly
AWSElasticBlockStoreVolumeSource: volumeID fsType partition readOnly
GitRepoVolumeSource: repository revision directory
SecretVolumeSource: secretName items:KeyToPath defaultMode optional
KeyToPath: key path mode
NFSVolumeSource: server path readOnly
ISCSIVolumeSource: targetPortal iqn lun iscsiInterface fsType readOnly portals chapAuthDiscovery chapAuthSession
    secretRef:LocalObjectReference initiatorName
LocalObjectReference: name
GlusterfsVolumeSource: endpoints path readOnly
PersistentVolumeClaimVolumeSource: claimName readOnly
RBDVolumeSource: monitors image fsType pool user keyring secretRef:LocalObjectReference readOnly
FlexVolumeSource: driver fsType secretRef:LocalObjectReference readOnly options
CinderVolumeSource: volumeID fsType readOnly secretRef:LocalObjectReference
CephFSVolumeSource: monitors path user secretFile secretRef:LocalObjectReference readOnly
FlockerVolumeSource: datasetName datasetUUID
DownwardAPIVolumeSource: items:DownwardAPIVolumeFile defaultMode
DownwardAPIVolumeFile: path fieldRef:ObjectFieldSelector resourceFieldRef:ResourceFieldSelector mode
ObjectFieldSelector: apiVersion fieldPath
ResourceFieldSelector: containerName resource divisor
FCVolumeSource: targetWWNs lun fsType readOnly wwids
AzureFileVolumeSource: secretName shareName readOnly
ConfigMapVolumeSource: name items:KeyToPath defaultMode optional
VsphereVirtualDiskVolumeSource: volumePath fsType storagePolicyName storagePolicyID
QuobyteVolumeSource: registry volume readOnly user group tenant
AzureDiskVolumeSource: diskName diskURI cachingMode fsType readOnly kind
PhotonPersistentDiskVolumeSource: pdID fsType
ProjectedVolumeSource: sources:VolumeProjection defaultMode
VolumeProjection: secret:SecretProjection downwardAPI:DownwardAPIProjection configMap:ConfigMapProjection
    serviceAccountToken:ServiceAccountTokenProjection clusterTrustBundle:ClusterTrustBundleProjection
    podCertificate:PodCertificateProjection
SecretProjection: name items:KeyToPath optional
DownwardAPIProjection: items:DownwardAPIVolumeFile
ConfigMapProjection: name items:KeyToPath optional
ServiceAccountTokenProjection: audience expirationSeconds path
ClusterTrustBundleProjection: name signerName labelSelector:LabelSelector optional path
LabelSelector: matchLabels matchExpressions:LabelSelectorRequirement
LabelSelectorRequirement: key operator values
PodCertificateProjection: signerName keyType maxExpirationSeconds credentialBundlePath keyPath certificateChainPath
    userAnnotations
PortworxVolumeSource: volumeID fsType readOnly
ScaleIOVolumeSource: gateway system secretRef:LocalObjectReference sslEnabled protectionDomain storagePool
    storageMode volumeName fsType readOnly
StorageOSVolumeSource: volumeName volumeNamespace fsType readOnly secretRef:LocalObjectReference
CSIVolumeSource: driver readOnly fsType volumeAttributes nodePublishSecretRef:LocalObjectReference
EphemeralVolumeSource: volumeClaimTemplate:PersistentVolumeClaimTemplate
PersistentVolumeClaimTemplate: metadata:ObjectMeta spec:PersistentVolumeClaimSpec
PersistentVolumeClaimSpec: accessModes selector:LabelSelector resources:VolumeResourceRequirements volumeName
    storageClassName volumeMode dataSource:TypedLocalObjectReference dataSourceRef:TypedObjectReference
    volumeAttributesClassName
VolumeResourceRequirements: limits requests
TypedLocalObjectReference: apiGroup kind name
TypedObjectReference: apiGroup kind name namespace
ImageVolumeSource: reference pullPolicy
Container: name image command args workingDir ports:ContainerPort envFrom:EnvFromSource env:EnvVar
    resources:ResourceRequirements resizePolicy:ContainerResizePolicy restartPolicy
    restartPolicyRules:ContainerRestartRule volumeMounts:VolumeMount volumeDevices:VolumeDevice livenessProbe:Probe
    readinessProbe:Probe startupProbe:Probe lifecycle:Lifecycle terminationMessagePath terminationMessagePolicy
    imagePullPolicy securityContext:SecurityContext stdin stdinOnce tty
ContainerPort: name hostPort containerPort protocol hostIP
EnvFromSource: prefix configMapRef:ConfigMapEnvSource secretRef:SecretEnvSource
ConfigMapEnvSource: name optional
SecretEnvSource: name optional
EnvVar: name value valueFrom:EnvVarSource
EnvVarSource: fieldRef:ObjectFieldSelector resourceFieldRef:ResourceFieldSelector
    configMapKeyRef:ConfigMapKeySelector secretKeyRef:SecretKeySelector fileKeyRef:FileKeySelector
ConfigMapKeySelector: name key optional
SecretKeySelector: name key optional
FileKeySelector: volumeName path key optional
ResourceRequirements: limits requests claims:ResourceClaim
ResourceClaim: name request
ContainerResizePolicy: resourceName restartPolicy
ContainerRestartRule: action exitCodes:ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes: operator values
VolumeMount: name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr
VolumeDevice: name devicePath
Probe: exec:ExecAction httpGet:HTTPGetAction tcpSocket:TCPSocketAction grpc:GRPCAction initialDelaySeconds
    timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds
ExecAction: command
HTTPGetAction: path port host scheme httpHeaders:HTTPHeader
HTTPHeader: name value
TCPSocketAction: port host
GRPCAction: port service
Lifecycle: postStart:LifecycleHandler preStop:LifecycleHandler stopSignal
LifecycleHandler: exec:ExecAction httpGet:HTTPGetAction tcpSocket:TCPSocketAction sleep:SleepAction
SleepAction: seconds
SecurityContext: capabilities:Capabilities privileged seLinuxOptions:SELinuxOptions
    windowsOptions:WindowsSecurityContextOptions runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem
    allowPrivilegeEscalation procMount seccompProfile:SeccompProfile appArmorProfile:AppArmorProfile
Capabilities: add drop
SELinuxOptions: user role type level
WindowsSecurityContextOptions: gmsaCredentialSpecName gmsaCredentialSpec runAsUserName hostProcess
SeccompProfile: type localhostProfile
AppArmorProfile: type localhostProfile
EphemeralContainer: name image command args workingDir ports:ContainerPort envFrom:EnvFromSource env:EnvVar
    resources:ResourceRequirements resizePolicy:ContainerResizePolicy restartPolicy
    restartPolicyRules:ContainerRestartRule volumeMounts:VolumeMount volumeDevices:VolumeDevice livenessProbe:Probe
    readinessProbe:Probe startupProbe:Probe lifecycle:Lifecycle terminationMessagePath terminationMessagePolicy
    imagePullPolicy securityContext:SecurityContext stdin stdinOnce tty targetContainerName
PodSecurityContext: seLinuxOptions:SELinuxOptions windowsOptions:WindowsSecurityContextOptions runAsUser runAsGroup
    runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup sysctls:Sysctl fsGroupChangePolicy
    seccompProfile:SeccompProfile appArmorProfile:AppArmorProfile seLinuxChangePolicy
Sysctl: name value
Affinity: nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAntiAffinity
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
    preferredDuringSchedulingIgnoredDuringExecution:PreferredSchedulingTerm
NodeSelector: nodeSelectorTerms:NodeSelectorTerm
NodeSelectorTerm: matchExpressions:NodeSelectorRequirement matchFields:NodeSelectorRequirement
NodeSelectorRequirement: key operator values
PreferredSchedulingTerm: weight preference:NodeSelectorTerm
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm
    preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm
PodAffinityTerm: labelSelector:LabelSelector namespaces topologyKey namespaceSelector:LabelSelector matchLabelKeys
    mismatchLabelKeys
WeightedPodAffinityTerm: weight podAffinityTerm:PodAffinityTerm
PodAntiAffinity: requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm
    preferredDuringSchedulingIgnoredDuringExecution:WeightedPodAffinityTerm
Toleration: key operator value effect tolerationSeconds
HostAlias: ip hostnames
PodDNSConfig: nameservers searches options:PodDNSConfigOption
PodDNSConfigOption: name value
PodReadinessGate: conditionType
TopologySpreadConstraint: maxSkew topologyKey whenUnsatisfiable labelSelector:LabelSelector minDomains
    nodeAffinityPolicy nodeTaintsPolicy matchLabelKeys
PodOS: name
PodSchedulingGate: name
PodResourceClaim: name resourceClaimName resourceClaimTemplateName
PodSchedulingGroup: podGroupName
PodDisruptionBudget: apiVersion kind metadata:ObjectMeta spec:PodDisruptionBudgetSpec status
PodDisruptionBudgetSpec: minAvailable selector:LabelSelector maxUnavailable unhealthyPodEvictionPolicy
PriorityClass: apiVersion kind metadata:ObjectMeta value globalDefault description preemptionPolicy
PersistentVolumeClaim: apiVersion kind metadata:ObjectMeta spec:PersistentVolumeClaimSpec status
StorageClass: apiVersion kind metadata:ObjectMeta provisioner parameters reclaimPolicy mountOptions
    allowVolumeExpansion volumeBindingMode allowedTopologies:TopologySelectorTerm
TopologySelectorTerm: matchLabelExpressions:TopologySelectorLabelRequirement
TopologySelectorLabelRequirement: key values
HorizontalPodAutoscaler: apiVersion kind metadata:ObjectMeta spec:HorizontalPodAutoscalerSpec status
HorizontalPodAutoscalerSpec: scaleTargetRef:CrossVersionObjectReference minReplicas maxReplicas metrics behavior
    targetCPUUtilizationPercentage
CrossVersionObjectReference: kind name apiVersion
NodePool: apiVersion kind metadata:ObjectMeta spec:NodePoolSpec status
NodePoolSpec: template:KarpenterTemplate disruption:KarpenterDisruption limits weight replicas
KarpenterTemplate: metadata:KarpenterTemplateMeta spec:KarpenterTemplateSpec
KarpenterTemplateMeta: labels annotations
KarpenterTemplateSpec: taints:Taint startupTaints:Taint requirements:KarpenterRequirement
    nodeClassRef:KarpenterNodeClassReference terminationGracePeriod expireAfter kubelet
KarpenterRequirement: key operator values minValues
KarpenterNodeClassReference: group kind name apiVersion
KarpenterDisruption: consolidateAfter consolidationPolicy budgets:KarpenterBudget expireAfter
KarpenterBudget: nodes reasons schedule duration
NodeClaim: apiVersion kind metadata:ObjectMeta spec:KarpenterClaimSpec status
KarpenterClaimSpec: taints:Taint startupTaints:Taint requirements:KarpenterRequirement
    nodeClassRef:KarpenterNodeClassReference terminationGracePeriod expireAfter kubelet resources
NodeOverlay: apiVersion kind metadata:ObjectMeta spec:NodeOverlaySpec status
NodeOverlaySpec: requirements:KarpenterRequirement priceAdjustment price capacity weight
Taint: key value effect timeAdded
"""
"""One line per type with its fields. A field whose type has fields of its own is followed by a colon and that type.
Indented lines continue the line above.
"""


@cache
def get_fields_by_type() -> dict[str, dict[str, str]]:
    """Return the fields of each API type with the types of their values.

    The type is "" for a value that may hold anything.

    >>> get_fields_by_type()["Volume"]["emptyDir"]
    'EmptyDirVolumeSource'
    """
    fields_of_types: dict[str, dict[str, str]] = {}
    for line in TYPES.replace("\n    ", " ").strip().split("\n"):  # an indented line continues the line above
        type_name, *fields = line.split()
        type_by_field = {}
        for field in fields:
            name, _colon, field_type = field.partition(":")
            type_by_field[name] = field_type
        fields_of_types[type_name.rstrip(":")] = type_by_field
    return fields_of_types
