"""Rules about Karpenter and the Cluster Autoscaler."""
