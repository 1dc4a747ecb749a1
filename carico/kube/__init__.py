"""The only part of CARICO that talks to the Kubernetes API; needs the package kubernetes (extra `scheduler`)."""
