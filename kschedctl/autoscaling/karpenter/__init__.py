"""A replay of Karpenter's provisioning and disruption on a snapshot of a cluster."""
