"""The table of commands: everything that the program, its help, its pages and its schemas need to know of each command.

A command uses only commands below it in this table, which tests/test_command_folders.py checks. The folder of a command
has the command's name, with underscores for hyphens.
"""

from __future__ import annotations

from kschedctl.reports.command import FAILURES, CommandEntry, HelpHeading

FINDINGS = f"Exit codes: 0 no findings at or above --fail-on, 1 findings, {FAILURES}."
FINDINGS_OR_UNDECIDED = f"Exit codes: 0 no findings at or above --fail-on, 1 findings, {FAILURES}, 5 undecided."
DONE = f"Exit codes: 0 done, {FAILURES}."
DONE_WITHOUT_CLUSTER = "Exit codes: 0 done, 2 usage, 4 a bug."

TABLE = (
    CommandEntry(
        "instance-types",
        "Print the instance types of a cluster's nodes, for --instance-types.",
        HelpHeading.AUTOSCALERS,
        5,
        exit_codes=f"Exit codes: 0 done, {FAILURES}, 5 undecided.",
    ),
    CommandEntry(
        "mcp", "Answer AI agents' questions over the Model Context Protocol.", HelpHeading.OTHER, 1, exit_codes=DONE
    ),
    CommandEntry(
        "schema", "Print the JSON Schema of a document.", HelpHeading.OTHER, 3, exit_codes=DONE_WITHOUT_CLUSTER
    ),
    CommandEntry(
        "browse", "Explore pending pods, nodes and fixes in the terminal.", HelpHeading.ASK, 4, exit_codes=DONE
    ),
    CommandEntry(
        "watch",
        "Export scheduling metrics of a cluster for Prometheus.",
        HelpHeading.CLUSTER,
        2,
        exit_codes=f"Exit codes: 0 answered, {FAILURES}, 5 undecided.",
        pages={"ClusterMetrics": "commands.watch.page:build_cluster_metrics_page"},
        formats={"openmetrics": "commands.watch.openmetrics:to_openmetrics"},
    ),
    CommandEntry(
        "drain",
        "Where would the pods of these nodes go, and what blocks the drain?",
        HelpHeading.WHAT_IF,
        3,
        exit_codes=f"Exit codes: 0 every evicted pod gets another node, 1 not, {FAILURES}, 5 undecided.",
        schemas={"drain": "commands.drain.report:Drain"},
        pages={"Drain": "commands.drain.page:build_page"},
    ),
    CommandEntry(
        "consolidate",
        "Which nodes could be removed, and why must the others stay?",
        HelpHeading.AUTOSCALERS,
        4,
        exit_codes=f"Exit codes: 0 done, {FAILURES}, 5 undecided.",
        schemas={"consolidation": "commands.consolidate.report:NodeConsolidation"},
        pages={"Consolidation": "commands.consolidate.page:build_page"},
    ),
    CommandEntry(
        "topology",
        "What does losing a node, zone or rack cost each workload, and do spread constraints hold?",
        HelpHeading.CHECK,
        7,
        exit_codes=FINDINGS_OR_UNDECIDED,
    ),
    CommandEntry(
        "packing",
        "Which free capacity is stranded, and which nodes can be removed?",
        HelpHeading.CHECK,
        6,
        exit_codes=FINDINGS_OR_UNDECIDED,
    ),
    CommandEntry(
        "races",
        "How many pods would be double-booked?",
        HelpHeading.CHECK,
        8,
        exit_codes=f"Exit codes: 0 answered, {FAILURES}.",
        schemas={"races": "commands.audit.races.report:Races"},
        pages={"Races": "commands.audit.races.page:build_races_page"},
    ),
    CommandEntry(
        "latency",
        "How long does kube-scheduler take, and what holds it up?",
        HelpHeading.CHECK,
        5,
        exit_codes=FINDINGS_OR_UNDECIDED,
    ),
    CommandEntry(
        "priorities",
        "Who outranks whom, who starves, and who would be evicted first?",
        HelpHeading.CHECK,
        4,
        exit_codes=FINDINGS_OR_UNDECIDED,
    ),
    CommandEntry(
        "sampling",
        "What does sampling nodes cost, and what does it save?",
        HelpHeading.CHECK,
        9,
        exit_codes=f"Exit codes: 0 answered, {FAILURES}, 5 undecided.",
        schemas={"sampling-costs": "commands.audit.sampling.report:SamplingCosts"},
        pages={"SamplingCosts": "commands.audit.sampling.page:build_sampling_page"},
    ),
    CommandEntry(
        "rebalance",
        "What would the descheduler evict, where would the pods go, and does it ever end?",
        HelpHeading.WHAT_IF,
        6,
        exit_codes=f"Exit codes: 0 it ends without harm, 1 it loops or would do harm, {FAILURES}, 5 undecided.",
        schemas={"rebalancing": "commands.rebalance.report:Rebalancing"},
        pages={"Rebalancing": "commands.rebalance.page:build_page"},
    ),
    CommandEntry(
        "remedies",
        "Which changes would let this pod schedule?",
        HelpHeading.ASK,
        2,
        schemas={
            "remedies": "commands.remedies.report:Remedies",
            "remedies-of-many": "commands.remedies.report:RemediesOfMany",
        },
        pages={
            "Remedies": "commands.remedies.page:build_remedies_page",
            "RemediesOfMany": "commands.remedies.page:build_page_for_many_pods",
        },
        formats={"patch": "commands.remedies.page:render_patches"},
    ),
    CommandEntry(
        "failures",
        "What would no longer fit if a node, a zone or a pool were lost?",
        HelpHeading.WHAT_IF,
        4,
        exit_codes=f"Exit codes: 0 the cluster survives each failure, 1 it does not, {FAILURES}, 5 undecided.",
        schemas={"failures": "commands.failures.report:Failures"},
        pages={"Failures": "commands.failures.page:build_page"},
    ),
    CommandEntry(
        "size",
        "Which nodes would you need if you built the cluster from scratch?",
        HelpHeading.WHAT_IF,
        7,
        exit_codes=f"Exit codes: 0 all pods get a node, 1 some do not, {FAILURES}, 5 undecided.",
        schemas={"node-sizing": "commands.size.report:NodeSizing"},
        pages={"NodeSizing": "commands.size.page:build_page"},
    ),
    CommandEntry(
        "audit",
        "Is the scheduler healthy, and is the cluster scheduled well?",
        HelpHeading.CHECK,
        2,
        exit_codes=FINDINGS_OR_UNDECIDED,
        schemas={"audit": "commands.audit.report:Audit", "audit-section": "commands.audit.report:AnySection"},
        pages={
            "Audit": "commands.audit.page:build_audit_page",
            "AuditSection": "commands.audit.page:build_section_page",
        },
    ),
    CommandEntry(
        "make-room",
        "Which pods have to move so that these fit?",
        HelpHeading.WHAT_IF,
        5,
        exit_codes=f"Exit codes: 0 the pods fit, 1 they do not, {FAILURES}, 5 undecided.",
        schemas={"make-room": "commands.make_room.report:MakeRoom"},
        pages={"MakeRoom": "commands.make_room.page:build_page"},
    ),
    CommandEntry(
        "whatif",
        "What would these changes to the cluster do to its pods?",
        HelpHeading.WHAT_IF,
        8,
        schemas={"whatif": "commands.whatif.report:WhatIf"},
        pages={"WhatIf": "commands.whatif.page:build_page"},
        html_widgets={"WhatIf": "commands.whatif.page:build_pending_pod_matrices"},
    ),
    CommandEntry(
        "config",
        "Is this KubeSchedulerConfiguration valid, and what does it do?",
        HelpHeading.CHECK,
        3,
        exit_codes=FINDINGS,
        schemas={"effective-configuration": "lint.effective_configuration:EffectiveConfiguration"},
        pages={"EffectiveConfiguration": "commands.config.page:build_configuration_page"},
    ),
    CommandEntry(
        "provision",
        "Which nodes would Karpenter launch for pending pods?",
        HelpHeading.AUTOSCALERS,
        3,
        exit_codes=f"Exit codes: 0 every pending pod gets a node, 1 some do not, {FAILURES}, 5 undecided.",
        schemas={"provisioning": "reports.karpenter:Provisioning", "disruption": "reports.karpenter:Disruption"},
        pages={
            "Provisioning": "commands.provision.page:build_provisioning_page",
            "Disruption": "commands.provision.page:build_disruption_page",
        },
    ),
    CommandEntry(
        "wakes",
        "What makes the scheduler retry a rejected pod?",
        HelpHeading.ASK,
        3,
        exit_codes=f"Exit codes: 0 answered, or woken, 1 not woken, or missed (--between), {FAILURES}, 5 undecided.",
        schemas={
            "wake-ups": "commands.wakes.report:WakeUps",
            "wake-ups-of-many": "commands.wakes.report:WakeUpsOfMany",
            "wakes": "commands.wakes.report:Wakes",
            "wakes-of-many": "commands.wakes.report:WakesOfMany",
            "wakes-between": "commands.wakes.report:WakesBetween",
        },
        pages={
            "WakeUps": "commands.wakes.page:build_wake_ups_page",
            "WakeUpsOfMany": "commands.wakes.page:build_many_wake_ups_page",
            "WakesOfMany": "commands.wakes.page:build_wakes_page",
            "WakesBetween": "commands.wakes.page:build_wakes_between_page",
        },
    ),
    CommandEntry(
        "capacity",
        "How many more of these pods fit, and what stops the next one?",
        HelpHeading.WHAT_IF,
        2,
        schemas={"capacity": "commands.capacity.report:Capacity"},
        pages={"Capacity": "commands.capacity.page:build_page"},
    ),
    CommandEntry("demo", "Take a short tour of the built-in demo cluster.", HelpHeading.OTHER, 2),
    CommandEntry(
        "simulate",
        "Where would the pods of these manifests go?",
        HelpHeading.WHAT_IF,
        1,
        schemas={
            "simulation": "commands.simulate.report:SimulationReport",
            "followed-rollout": "commands.simulate.following_report:FollowedRollout",
        },
        pages={
            "Simulation": "commands.simulate.page:build_simulation_page",
            "FollowedRollout": "commands.simulate.page:build_followed_rollout_page",
        },
        html_widgets={"Simulation": "commands.simulate.page:build_simulation_widgets"},
    ),
    CommandEntry(
        "version",
        "Print the versions of kschedctl, of the kube-schedulers it replays, and of the cluster.",
        HelpHeading.CLUSTER,
        3,
        exit_codes=DONE,
        schemas={"version": "commands.version.command:Version"},
        pages={"Version": "commands.version.command:build_version_page"},
    ),
    CommandEntry(
        "help",
        "Show help for a command, or for a topic such as rights or ci.",
        HelpHeading.OTHER,
        5,
        exit_codes=DONE_WITHOUT_CLUSTER,
    ),
    CommandEntry(
        "versions",
        "What differs between versions of kube-scheduler?",
        HelpHeading.CLUSTER,
        4,
        exit_codes=DONE_WITHOUT_CLUSTER,
        schemas={"version-changes": "commands.versions.report:VersionChanges"},
        pages={"VersionChanges": "commands.versions.page:build_version_changes_page"},
    ),
    CommandEntry(
        "scale",
        "What would the Cluster Autoscaler do next, and why not more?",
        HelpHeading.AUTOSCALERS,
        2,
        exit_codes=f"Exit codes: 0 done, 1 some pending pods get no node (up), {FAILURES}, 5 undecided.",
        schemas={
            "scale-up": "reports.cluster_autoscaler:ScaleUp",
            "scale-down": "reports.cluster_autoscaler:ScaleDown",
        },
        pages={
            "ScaleUp": "commands.scale.page:build_scale_up_page",
            "ScaleDown": "commands.scale.page:build_scale_down_page",
        },
    ),
    CommandEntry(
        "lint",
        "What would break scheduling in these manifests, or in this cluster?",
        HelpHeading.CHECK,
        1,
        exit_codes=FINDINGS_OR_UNDECIDED,
        schemas={
            "findings": "reports.findings:Findings",
            "lint-fixes": "commands.lint.fixes:LintFixes",
            "lint-rules": "reports.findings:RuleList",
            "lint-rule": "reports.findings:RuleReport",
        },
        pages={
            "Findings": "commands.lint.page:build_findings_page",
            "LintRules": "commands.lint.page:build_rule_list_page",
            "LintRule": "commands.lint.page:build_rule_page",
        },
        formats={"diff": "commands.lint.fixes:render_diff"},
    ),
    CommandEntry(
        "queues",
        "Who uses the quota of Kueue's queues, and what is each pending Workload waiting for?",
        HelpHeading.CLUSTER,
        5,
        exit_codes=f"Exit codes: 0 answered, {FAILURES}, 5 undecided.",
        schemas={"kueue-queues": "commands.queues.report:KueueQueues"},
        pages={"KueueQueues": "commands.queues.page:build_queues_page"},
    ),
    CommandEntry(
        "pools",
        "Which node pools exist, and what is free on their nodes?",
        HelpHeading.AUTOSCALERS,
        1,
        exit_codes=f"Exit codes: 0 done, {FAILURES}, 5 undecided.",
        schemas={"node-pools": "commands.pools.report:NodePools"},
        pages={"NodePools": "commands.pools.page:build_pools_page"},
    ),
    CommandEntry(
        "snapshot",
        "Save what matters for scheduling from a cluster to a file; show and compare such files.",
        HelpHeading.CLUSTER,
        1,
        exit_codes=f"Exit codes: 0 done, or no difference, 1 a difference (diff), {FAILURES}.",
        schemas={
            "snapshot": "commands.snapshot.report:SnapshotReport",
            "snapshot-diff": "commands.snapshot.report:SnapshotDiff",
        },
        pages={
            "SnapshotReport": "commands.snapshot.page:build_snapshot_page",
            "SnapshotDiff": "commands.snapshot.page:build_diff_page",
        },
    ),
    CommandEntry(
        "explain",
        "Why is this pod Pending? Why are all of these?",
        HelpHeading.ASK,
        1,
        schemas={
            "explanation": "commands.explain.report:Explanation",
            "explanations": "commands.explain.report:Explanations",
            "compact-explanation": "commands.explain.compact:CompactExplanation",
            "compact-explanations": "commands.explain.compact:CompactExplanations",
            "pending-pods": "commands.explain.pending_report:PendingPods",
        },
        pages={
            "Explanation": "commands.explain.page:build_explanation_page",
            "Explanations": "commands.explain.page:build_explanations_page",
            "PendingPods": "commands.explain.pending_page:build_pending_page",
        },
        html_widgets={
            "Explanation": "commands.explain.html_widgets:build_explanation_widgets",
            "Explanations": "commands.explain.html_widgets:build_explanations_widgets",
            "PendingPods": "commands.explain.html_widgets:build_pending_widgets",
        },
        compact_forms={
            "Explanation": "commands.explain.compact:to_compact_form",
            "Explanations": "commands.explain.compact:to_compact_form",
        },
    ),
    CommandEntry(
        "completion", "Print a shell completion script.", HelpHeading.OTHER, 4, exit_codes=DONE_WITHOUT_CLUSTER
    ),
)
