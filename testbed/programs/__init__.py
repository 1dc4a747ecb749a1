"""Programs on this machine beside the testbed: finding them, running them, and ending them with the testbed."""
