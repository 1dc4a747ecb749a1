"""The clusters that experiments run on, behind one protocol."""
