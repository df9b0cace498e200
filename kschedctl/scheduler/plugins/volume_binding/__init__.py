"""VolumeBinding: the volumes of a pod, and those that its unbound claims would get.

`plugin` has the plugin, `binder` evaluates all nodes at once, `matching` finds the volume for a claim,
`capacity_scoring` scores, `reservation` applies a decision, `arguments` has the arguments and `facts` the facts behind
rejections. Upstream: plugins/volumebinding.
"""
