"""HTTP servers of the processes: the server, its TLS, and the status that every process serves."""
