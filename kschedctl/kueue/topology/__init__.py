"""Topology-aware scheduling: the choice of the topology domains to which the pods of a pod set are assigned."""
