"""Prompts for the most common questions. They name the tools to use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PromptTemplate:
    """A prompt with placeholders."""

    name: str
    title: str
    arguments: dict[str, str]
    """Placeholder -> its description."""
    text: str
    """The text, with placeholders in braces."""


PROMPTS = (
    PromptTemplate(
        "why_is_this_pending",
        "Why is this pod pending?",
        {"pod": "namespace/name of the pod"},
        "Why is the pod {pod} Pending? Call explain_pod. Answer with the scheduler's reason, the closest node and what "
        "it lacks, then the best fix and who makes it, with its command. Say what was not read if the answer is "
        "undecided. If no fix is given, call find_remedies. Do not propose anything that no tool verified.",
    ),
    PromptTemplate(
        "is_this_safe_to_deploy",
        "Is this safe to deploy?",
        {"manifests": "the manifests, as YAML or JSON"},
        "Is this safe to deploy? Call check_manifest for each manifest that makes pods, then simulate_apply with all "
        "of them. Answer yes or no first: no if a pod stays Pending, if a pod of another workload is evicted, or if "
        "the answer is undecided. Then say where the pods go and what to change.\n\n{manifests}",
    ),
)
