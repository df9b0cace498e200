"""Plugins of kubernetes-sigs/scheduler-plugins, which some scheduler builds include besides the built-in plugins."""
