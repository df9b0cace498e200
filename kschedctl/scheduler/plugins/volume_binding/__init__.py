"""VolumeBinding: the volumes of a pod, and those that its unbound claims would get.

`plugin` has the plugin with its arguments, `binder` evaluates all nodes at once and applies the decision, `matching`
finds the volume for a claim, `capacity_scoring` scores, and `facts` has the facts behind rejections. Upstream:
plugins/volumebinding.
"""
