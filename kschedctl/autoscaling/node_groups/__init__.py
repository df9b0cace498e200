"""The node groups of the Cluster Autoscaler, as far as a cluster tells of them."""
