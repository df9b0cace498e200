"""The Common Expression Language as Kubernetes sets it up: parsed, checked, bounded by cost.

Written out because no library on PyPI has what upstream's answers depend on: its limits (an expression may nest 250
levels, Google's C++ implementation stops at 32 and has no cost), homogeneous literals, numbers of different types
compared, object types without protocol buffers, and the functions of the API server.

Upstream: github.com/google/cel-go v0.26 with staging/src/k8s.io/apiserver/pkg/cel/environment/base.go (v1.36).
"""
