"""The algorithm of CARICO (thesis chapter 3), pure: numpy alone, no I/O, no clock of its own, one concept a file."""
