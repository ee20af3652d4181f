"""Measuring: what `python -m decoding.benchmark` is made of, and races with other libraries.

arms, costs, measure: runs and their numbers. rows, tables, summary, plots: what becomes of them.
sweep: all of this in order. options: the command line.

transformers, llama_cpp: programs that race against another library. peers, side_by_side,
contestants, turns, clean, bandwidth, peer_table: what both share. transformers_peer,
llama_cpp_peer, llama_cpp_build, to_gguf: what each needs. counting, counting_gpt2, sizes: the
models that race. round, accounting, round_tables: where the time of a run goes. parallel,
parallel_table: what a target split over processes costs.

README.md beside this file holds what was measured, and how to measure it on your machine.
"""
