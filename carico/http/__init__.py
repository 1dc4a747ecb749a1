"""HTTP servers of the processes: serving, their TLS, and what every process tells of its health."""
