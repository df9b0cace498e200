"""What monitoring in a cluster needs: manifests, alerts, a dashboard. ``kschedctl watch --print`` prints them."""
