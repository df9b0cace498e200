"""Devices for pods: ResourceClaims, ResourceSlices, CEL selectors and the structured allocator."""
