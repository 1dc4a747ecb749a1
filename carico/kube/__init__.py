"""The only part of CARICO that talks to the Kubernetes API; its client needs the extra `scheduler`."""
