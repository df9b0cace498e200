"""Plugins of kubernetes-sigs/scheduler-plugins, which other builds of the scheduler have besides its own."""
