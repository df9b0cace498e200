"""The registered plugins: `in_tree` has kube-scheduler's, `third_party` those of other projects and packages."""
