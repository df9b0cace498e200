"""VolumeBinding. Upstream: plugins/volumebinding."""
