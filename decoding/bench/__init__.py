"""Measuring: what `python -m decoding.benchmark` is made of, and a race with transformers.

arms, costs, measure: runs and their numbers. rows, tables, summary, plots: what becomes of them.
sweep: all of this in order. transformers, contestants, side_by_side: the race. counting,
counting_gpt2, sizes: the models that run in it. options: the command line.

README.md beside this file holds what was measured, and how to measure it on your machine.
"""
