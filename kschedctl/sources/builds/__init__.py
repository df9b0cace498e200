"""Builds of manifests by Kustomize and Helm, and the file and line that each built field comes from."""
