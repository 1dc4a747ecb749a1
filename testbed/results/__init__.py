"""Results: their schema and how they are stored."""

OWN_FOLDER = ".carico"
"""A folder of this name is created where it is missing, and ignores itself by a .gitignore of its own."""
