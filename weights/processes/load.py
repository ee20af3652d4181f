"""A model that is shared out, loaded by all of its processes: each reads its own part of the files.
"""
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from model.fast.layouts import give_head, layout_for
from model.leader import Leader
from model.parallel import SharedOut, share_out
from model.split import Cut, Share
from weights.checkpoint import Stored, find_weights
from weights.choices import Choices
from weights.fill import read_weights
from weights.load import find_checkpoint
from weights.processes.group import Group

HEADS = ("lm_head", "embed_out")  # of models that are not tied; only process 0 needs one
Result = TypeVar("Result")


def load_leader(group: Group, name: str, device: str = "cpu", dtype: torch.dtype = torch.float32,
                layout: str = "auto", tokens_per_pass: int = 5) -> Leader:
    """Load a model on every process, and return it as process 0 decodes with it.

    name, …: as for `weights.load_fast`. A process's memory is its share, and embeddings, norms and
    on process 0 the head. Raises ValueError, on process 0, for a model that cannot be shared out
    among so many, and whatever went wrong on another process.
    """
    group.announce("check_device", device)
    attempt(group, lambda: check_device(group, device))
    group.announce("load", name, device, dtype, layout, tokens_per_pass)
    share = load_share(group, name, device, dtype, layout, tokens_per_pass)
    assert share is not None  # else an error has been raised
    copies = group.size * share.kv_heads // share.config.kv_heads
    if copies > 1:
        warnings.warn(f"the target has {share.config.kv_heads} heads of keys and values, fewer "
                      f"than processes: {copies} processes each keep the same ones", stacklevel=2)
    return Leader(share, group)


def check_device(group: Group, device: str) -> None:
    """Raise ValueError unless this process has a device of its own."""
    if device == "mps":
        raise ValueError("processes share a model on cpu or cuda, not on mps; say --device cpu")
    if device == "cuda" and group.local >= torch.cuda.device_count():
        raise ValueError(f"there are {torch.cuda.device_count()} GPUs here, and each process needs "
                         "one of its own; take fewer processes, or --device cpu")


def load_share(group: Group, name: str, device: str, dtype: torch.dtype, layout: str,
               tokens_per_pass: int) -> SharedOut | None:
    """Load this process's share. All processes call this at the same time."""
    group.use(device)
    return attempt(group, lambda: read_share(group, name, device, dtype, layout, tokens_per_pass))


def attempt(group: Group, work: Callable[[], Result]) -> Result | None:
    """Do something on every process at the same time, and return what came of it.

    Raises on process 0 what went wrong on any of them. The others wait for what it does then.
    """
    result, error = None, None
    try:
        result = work()
    except (ValueError, OSError, MemoryError, RuntimeError) as raised:
        error = raised
    for rank, found in enumerate(group.gather(error)):
        if found is not None:
            raise found if rank == 0 else type(found)(f"process {rank}: {found}")
    return result


def read_share(group: Group, name: str, device: str, dtype: torch.dtype, layout: str,
               tokens_per_pass: int) -> SharedOut:
    """Read this process's share of the model from its files, and nothing else of the matrices."""
    model, weights = find_weights(find_checkpoint(name), dtype)
    cuts = share_out(model, group)
    follows = group.rank > 0
    if follows:
        for head in HEADS:
            if hasattr(model, head):
                setattr(model, head, nn.Identity())
    # What others choose is theirs alone: process 0 remembers for all.
    found = layout_for(model, device, layout, tokens_per_pass, {} if follows else Choices())
    read_weights(parts(weights, cuts), model, device, found.layer)
    if not follows:
        give_head(model, found.head)
    heads = model.config.kv_heads
    kv_heads = heads // Share(group.rank, group.size).of_heads(heads).size
    return SharedOut(model.requires_grad_(False).eval(), kv_heads, has_head=not follows)


def parts(weights: dict[str, Stored], cuts: dict[str, Cut]) -> dict[str, Stored]:
    """Return where the weights of a share are: under its names, and which part of each it is."""
    found = {}
    for name, stored in weights.items():
        layer, _, leaf = name.rpartition(".")
        cut = cuts.get(layer)
        if cut is not None and cut.of_inputs and leaf == "weight":
            name = f"{layer}.product.weight"  # see `Summed`
        found[name] = stored._replace(cut=cut)
    return found
