"""KWOK: a real control plane with fake nodes; pods last as long as they are told to."""
