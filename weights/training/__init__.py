"""What `python -m weights.train` is made of.

corpus: text, vocabulary, ids. recipe: initial weights, dropout, optimizer, learning rate.
objective: the two losses, and the measurements. loop: training, a step at a time. pair: target,
then draft. resume: the checkpoint of an interrupted training. card, folder, progress: what is
written.
"""
