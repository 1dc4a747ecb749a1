"""The subcommands of `carico-testbed`, related ones in one module, and what they share."""
