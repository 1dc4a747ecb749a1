"""CARICO on a cluster: builds its manifests and certificates, applies and removes them, and reads the status.

Only `carico.kube` talks to the API server; the commands in `carico.commands` print the results.
"""
