"""The fixes that are proposed for a rejected node.

`REMEDIES` at the end of a module names the plugins whose rejections its fixes clear. These modules are `taints`,
`node_affinity`, `ports`, `requests`, `held_volumes`, `volumes`, `spread`, `pod_affinity`, `devices` and
`elastic_quotas`. They share fixes in the other modules, such as `neighbours`, `waiting` and `node_labels`. `scheduling`
and `new_nodes` do not depend on a plugin.
"""
