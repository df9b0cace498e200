"""Sources of clusters and manifests: files, folders, standard input, snapshots, API servers, extenders and metrics.

Read `read` (files to a cluster) with `collector` and `json_lists` first, then `repository` (files to manifests for
lint), `documents` (parsing), `builds` and `applied` (Kustomize, Helm and what is applied together), `archive_file` with
`archive_sections` and `anonymize` (snapshots), `live` (API servers), `extender_http` with `extender_recording`, and
`metrics`.
"""
