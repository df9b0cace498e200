"""Rules about a KubeSchedulerConfiguration, and the configuration in effect."""
