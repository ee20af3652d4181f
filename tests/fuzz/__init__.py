"""Odd command lines, damaged files and random runs: `python -m tests.fuzz`.

Not part of the tests: it finds what nobody thought of, and then deserves a test of its own.
"""
