"""The simulated cluster held against a real one: what is measured there, and how well it agrees."""
