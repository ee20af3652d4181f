"""What the benchmark needs beside the algorithms: arms, timing, rows, tables, plots.

README.md beside this file holds what was measured, and how to measure it on your machine.
"""
