"""CARICO on a cluster: manifests and certificates put together, applied, looked at and removed.

Nothing here talks to the API server but through `carico.kube`; the commands print what is returned.
"""
