"""Real clusters: what all kinds share. The rooms `kind`, `kwok` and `external` hold what is particular to each kind.

Only this room, and the rooms inside it, talk to an API server.
"""
