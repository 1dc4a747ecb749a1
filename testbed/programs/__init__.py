"""Programs that run on this machine beside the testbed: finding them, running them, and ending them with it."""
