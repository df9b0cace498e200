"""NodeVolumeLimits, and the plugins for in-tree volumes of old versions. Upstream: plugins/nodevolumelimits."""
