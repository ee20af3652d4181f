"""Speed, for programs: nothing here changes what a model computes.

layouts: which linear layers and which output head a model gets. timing: is another clearly faster?
packed, rows, strips, slabs, onednn: linear layers. output_heads: output heads. cuda_graphs: forward
passes on a GPU.
"""
