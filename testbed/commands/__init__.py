"""The subcommands of `carico-testbed`, a module each, and what they share."""
