"""The only room that talks to the Kubernetes API; its client needs the extra `scheduler`."""
