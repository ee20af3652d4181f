"""Measuring: what `python -m decoding.benchmark` is made of, and a race with transformers.

arms, costs, measure: runs and their numbers. rows, tables, summary, plots: what becomes of them.
sweep: all of this in order. transformers, contestants, side_by_side, counting: the race.

README.md beside this file holds what was measured, and how to measure it on your machine.
"""
