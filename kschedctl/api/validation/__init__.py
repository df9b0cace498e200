"""What the API server refuses in a pod, or in what holds the template of one: pure functions that yield FieldErrors.

One file a subject. The rules, their order and their words are those of pkg/apis/core/validation/validation.go,
pkg/apis/apps/validation/validation.go and pkg/apis/batch/validation/validation.go (v1.36), as far as they concern
fields that decide where pods go. Where upstream walks through a map, whose order Go leaves open, it is sorted here.
"""
