"""One model on several processes: each has some of the heads, and a part of every MLP.

A block is then two products of what a process has itself, each followed by a sum over all of them:
two sums per layer, of (T, n_embd) numbers. Embeddings, norms and the output head are whole.

How the processes come to do the same passes: model/leader.py.

torch.distributed.tensor.parallel would share out the matrices by a plan instead. It wants whole
weights in every process first, and a fused matrix such as GPT-2's reordered by hand.
"""
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn

from model.decoder import Decoder
from model.kv_cache import KVCache
from model.meta import NoInitialValues
from model.split import HIDDEN, Cut, Divided, Share, cut, kind_of


class World(Protocol):
    """All processes, as one of them sees them. weights/processes/group.py has them."""

    @property
    def rank(self) -> int: ...  # of this process
    @property
    def size(self) -> int: ...  # how many there are

    def add(self, y: Tensor) -> Tensor:
        """Add up the y of every process, and return the sum to each."""
        ...

    def announce(self, what: str, *numbers: Any) -> None:
        """Tell the others what to do; `Follower` has a method for everything."""
        ...

    def announce_later(self, what: str, *numbers: Any) -> None:
        """Do so together with the next announcement."""
        ...

    def one_pass(self) -> AbstractContextManager:
        """A block that Ctrl-C waits for: cut in two, it leaves others in the middle of a sum."""
        ...


class Summed(nn.Module):
    """A linear layer whose inputs are spread over the processes: the products are added up."""

    def __init__(self, product: nn.Module, bias: Tensor | None, world: World) -> None:
        super().__init__()
        self.product, self.world = product, world  # of this process's inputs, without a bias
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.world.add(self.product(x))  # (B, T, n_embd)
        return y if self.bias is None else y + self.bias


class SharedOut(Decoder):
    """What one process has of a model. Its passes are right only if all processes do the same.

    model: whose linear layers are this process's part; see `share_out`.
    kv_heads: how many heads of keys it has.
    has_head: whether it has an output head. Without one its logits mean nothing.
    """

    def __init__(self, model: Decoder, kv_heads: int, has_head: bool = True) -> None:
        super().__init__()
        self.model, self.config = model, model.config
        self.kv_heads, self.has_head = kv_heads, has_head

    def read(self, tokens: Tensor, positions: slice | Tensor, mask: Tensor | None,
             cache: KVCache | None) -> Tensor:
        return self.model.read(tokens, positions, mask, cache)

    def logits(self, x: Tensor) -> Tensor:
        return self.model.logits(x) if self.has_head else x

    @property
    def embedding(self) -> Tensor:
        return self.model.embedding

    @property
    def cache_sizes(self) -> tuple[int, int, int]:
        return self.config.n_layer, self.kv_heads, self.config.d_head


def share_out(model: Decoder, world: World) -> dict[str, Cut]:
    """Make of a model `without_memory` this process's share of it, also without memory.

    Returns what it has of each layer that is not whole. Raises ValueError if the sizes of the model
    do not divide.
    """
    layers = {name: layer for name, layer in model.named_modules()
              if isinstance(layer, nn.Linear) and kind_of(name) is not None}
    hidden = next(layer.out_features for name, layer in layers.items() if kind_of(name) == HIDDEN)
    Divided(model.config.n_head, model.config.kv_heads, hidden).check(world.size)
    share = Share(world.rank, world.size)
    cuts: dict[str, Cut] = {}
    with NoInitialValues():
        for name, layer in layers.items():
            cuts[name] = cut(name, layer.out_features, layer.in_features, share,
                             model.config.kv_heads)
            model.set_submodule(name, part_of(layer, cuts[name], world))
    return cuts


def part_of(layer: nn.Linear, cut: Cut, world: World) -> nn.Module:
    """Return a layer of the size that this process has, without memory."""
    n_out, n_in = layer.weight.shape
    like: dict[str, Any] = {"device": "meta", "dtype": layer.weight.dtype}
    if cut.of_inputs:
        return Summed(nn.Linear(cut.size(), n_out, bias=False, **like), layer.bias, world)
    return nn.Linear(n_in, cut.size(), bias=layer.bias is not None, **like)
