"""Real clusters: what all kinds share; the rooms `kind`, `kwok`, `xen` and `external` hold what only one kind needs.

Only this room, and the rooms inside it, talk to an API server.
"""
