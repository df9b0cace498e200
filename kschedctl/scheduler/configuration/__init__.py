"""The KubeSchedulerConfiguration and the API versions that it is used with.

In reading order: `document` (parsing), `profile` (plugins per extension point), `validation`, `configuration` (all of
these together), `secrets` (redaction) and `version_fields` (differences between API versions).
"""
