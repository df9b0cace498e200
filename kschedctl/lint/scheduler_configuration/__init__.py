"""Rules about a KubeSchedulerConfiguration, and what is in force by it."""
