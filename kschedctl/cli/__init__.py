"""The command line: entry point, shared options, input, and shell completion. The commands are in `kschedctl/commands`.

Read `main` first: it runs a command. `options`, `output_options` and `run_options` are the options that commands share.
`source` loads the cluster, `manifests` the manifests to apply to it, and `inquiry` the pods and workloads to explain.
`references` and `subjects` find the pods that the user names.
"""
