"""Rules that several plugins share. Upstream: pkg/scheduler/framework/plugins/helper."""
