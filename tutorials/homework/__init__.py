"""A function to write, and the judge of it."""
