"""Validation of pods and workloads as kube-apiserver does it: pure functions that yield FieldErrors, one file per
subject.

The rules, their order and their words are those of pkg/apis/core/validation/validation.go,
pkg/apis/apps/validation/validation.go and pkg/apis/batch/validation/validation.go (v1.36), limited to fields that
decide where pods go. Where upstream iterates over a map, whose order Go leaves open, keys are sorted.
"""
