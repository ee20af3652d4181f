"""The proof that speculative sampling keeps the target's distribution, to be read and run.

enumerate: every way a random program can go, with its probability. uniform, uniforms: the random
numbers it goes by, which are known by their comparisons only.
distributions: of whole texts, by definition and by enumeration of the real loops.
toys: models small enough for it. reference: probabilities computed in another way.
tree_toys: a model that reads trees.
mistakes: wrong rules and drafters, each of which the enumeration tells from the right one.
mistakes_of_blocks, mistakes_of_trees: the same about the block rule, and about trees.
"""
