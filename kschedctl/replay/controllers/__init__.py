"""The replay of controllers and admission: creation, rollouts, evictions and denials of pods.

Read `manifests` and `creation` for what manifests create, `plan_change`, `workload_change` and `rollout` for workloads
that exist already, and `admissions` for what the API server denies; `creation_fixes` finds fixes for that. `target_pod`
and `target_creation` choose the pod that stands for a workload.
"""
