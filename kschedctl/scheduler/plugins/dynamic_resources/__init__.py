"""The plugin DynamicResources, with an exact copy of kube-scheduler's structured device allocator."""
