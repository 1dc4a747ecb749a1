"""HTTP for all processes: the server, its TLS, and the status pages that every process serves."""
