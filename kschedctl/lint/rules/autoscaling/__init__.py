"""Rules about what Karpenter and the Cluster Autoscaler go by."""
