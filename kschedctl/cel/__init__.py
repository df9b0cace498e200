"""The Common Expression Language as Kubernetes configures it: parsing, type checking, evaluation with a cost limit.

It is implemented here because no library on PyPI has what upstream's answers depend on: its limits (expressions nest up
to 250 levels, whereas Google's C++ implementation stops at 32 and counts no cost), homogeneous literals, comparison of
numbers of different types, object types without protocol buffers, and the functions of the API server.

Upstream: github.com/google/cel-go v0.26 with staging/src/k8s.io/apiserver/pkg/cel/environment/base.go (v1.36).
"""
