"""What all real clusters share; `kind`, `kwok` and `external` say what is special to each.

Only this room, and the rooms inside it, talk to an API server.
"""
