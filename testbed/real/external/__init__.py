"""A cluster that the user already has: used as it is, and left as it was."""
