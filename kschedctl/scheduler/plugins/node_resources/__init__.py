"""NodeResourcesFit and NodeResourcesBalancedAllocation. Upstream: plugins/noderesources."""
