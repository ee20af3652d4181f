"""The families whose files can be read: how each writes its config.json, and stores its weights.

Nothing here imports torch. `weights.checkpoint` says which class of `model/` each family is.
"""
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from weights.values import Values

Fields = dict[str, Any]  # of a family's configuration in `model/`; n_rows stands for n_vocab
NONE = re.compile(r"(?!)")  # matches nothing


@dataclass(frozen=True)
class Family:
    """How the repositories of one family are to be read.

    sizes: reads the fields out of a config.json; refuses, by name, what is not computed here.
    prefix: what some files have before the names of all tensors but the output head's.
    constants: tensors that are stored and are no weights: masks, frequencies. None of them is read.
    turned: the matrices that are stored [in, out], as nn.Linear does not have them. By name, not by
        shape: GPT-2's attn.c_proj is square, and would fit either way.
    tied: the output head's name, and the embedding's, which is the same matrix in a tied model.
    starts_with_bos: whether every text the model was trained on begins with the token BOS.
    """

    sizes: Callable[[Values], Fields]
    prefix: re.Pattern
    constants: re.Pattern = NONE
    turned: tuple[str, ...] = ()
    tied: tuple[str, str] | None = None
    starts_with_bos: bool = False


def gpt2(values: Values) -> Fields:
    n_embd = values.size("n_embd")
    values.must("activation_function", "gelu_new", "gelu_pytorch_tanh")  # two names of one form
    values.must("layer_norm_epsilon", 1e-5)
    values.must("n_inner", None, 4 * n_embd)
    values.must("scale_attn_weights", True)
    values.must("scale_attn_by_inverse_layer_idx", False)
    values.must("reorder_and_upcast_attn", False)
    values.must("add_cross_attention", False)
    values.must("tie_word_embeddings", True)
    context = "n_positions" if values.has("n_positions") else "n_ctx"  # as the oldest files have it
    return {"n_layer": values.size("n_layer"), "n_head": values.size("n_head"), "n_embd": n_embd,
            "n_rows": values.size("vocab_size"), "n_ctx": values.size(context)}


def opt(values: Values) -> Fields:
    values.must("activation_function", "relu")
    values.must("enable_bias", True)
    values.must("layer_norm_elementwise_affine", True)
    values.must("_remove_final_layer_norm", False)
    values.must("tie_word_embeddings", True)
    sizes = usual_sizes(values)
    return {**sizes, "n_mlp": values.size("ffn_dim"),
            "n_word": values.size("word_embed_proj_dim", values.size("hidden_size")),
            "pre_norm": values.flag("do_layer_norm_before", True)}


def gpt_neo(values: Values) -> Fields:
    n_layer, n_embd = values.size("num_layers"), values.size("hidden_size")
    values.must("activation_function", "gelu_new", "gelu_pytorch_tanh")
    values.must("layer_norm_epsilon", 1e-5)
    values.must("intermediate_size", None, 4 * n_embd)
    values.must("tie_word_embeddings", True)
    in_turn = (["global", "local"] * n_layer)[:n_layer]
    if unrolled(values.get("attention_types"), n_layer) != in_turn:
        raise values.refusal("attention_types must make the layers global and local in turn, "
                             f"{n_layer} in all")
    return {"n_layer": n_layer, "n_head": values.size("num_heads"), "n_embd": n_embd,
            "n_rows": values.size("vocab_size"), "n_ctx": values.size("max_position_embeddings"),
            "window": values.size("window_size", 256)}


def unrolled(types: Any, n_layer: int) -> list[str] | None:
    """Return the kind of each layer, of [[["global", "local"], 6]] and its like.

    One more than n_layer at most; None if it is not of this form.
    """
    try:
        groups = (kinds * min(times, n_layer) for kinds, times in types)
        return list(islice(chain.from_iterable(groups), n_layer + 1))
    except (TypeError, ValueError):
        return None


def gpt_neox(values: Values) -> Fields:
    values.must("hidden_act", "gelu")  # the exact form
    values.must("layer_norm_eps", 1e-5)
    values.must("use_parallel_residual", True)
    values.must("attention_bias", True)
    values.must("tie_word_embeddings", False)
    return {**usual_sizes(values), "n_mlp": values.size("intermediate_size"),
            "rope": rope(values, theta="rotary_emb_base", share="rotary_pct", usual_share=0.25)}


def llama(values: Values) -> Fields:
    values.must("hidden_act", "silu")
    values.must("attention_bias", False)
    values.must("mlp_bias", False)
    sizes, n_head = usual_sizes(values), values.size("num_attention_heads")
    values.must("head_dim", None, values.size("hidden_size") // n_head)
    return {**sizes, "n_kv_head": values.size("num_key_value_heads", n_head),
            "n_mlp": values.size("intermediate_size"),
            "rope": rope(values, theta="rope_theta", share="partial_rotary_factor", usual_share=1),
            "eps": values.real("rms_norm_eps", 1e-6),
            "tied": values.flag("tie_word_embeddings", False)}


def usual_sizes(values: Values) -> Fields:
    """Return the sizes that OPT, GPT-NeoX and Llama name alike."""
    return {"n_layer": values.size("num_hidden_layers"),
            "n_head": values.size("num_attention_heads"), "n_embd": values.size("hidden_size"),
            "n_rows": values.size("vocab_size"), "n_ctx": values.size("max_position_embeddings")}


def rope(values: Values, theta: str, share: str, usual_share: float) -> Fields:
    """Return the fields of `model.rotary.Rope`.

    Files since 2025 have all of them under rope_parameters. Older ones have `theta` and `share`
    (the names of keys) beside the sizes, and how positions are scaled under rope_scaling.
    """
    given = values.part("rope_scaling", "rope_parameters")
    d_head = values.size("hidden_size") // values.size("num_attention_heads")
    part = given.real("partial_rotary_factor", values.real(share, usual_share))
    fields: Fields = {"d_turned": int(d_head * part),
                      "theta": given.real("rope_theta", values.real(theta, 10000.0))}
    if fields["d_turned"] not in range(2, d_head + 1, 2):
        raise values.refusal(f"of {d_head} numbers of a head {fields['d_turned']} would be turned, "
                             "not an even number of them")
    kind = given.get("rope_type", given.get("type", "default"))
    if kind == "linear":
        fields["factor"] = given.real("factor")
    elif kind == "llama3":
        fields |= {"factor": given.real("factor"), "low": given.real("low_freq_factor"),
                   "high": given.real("high_freq_factor"),
                   "n_before": given.size("original_max_position_embeddings")}
    elif kind != "default":
        raise values.refusal(f"the rope type is {kind!r}; only 'default', 'linear' and 'llama3' "
                             "are computed here")
    return fields


# By model_type, as config.json has it.
FAMILIES = {
    "gpt2": Family(gpt2, re.compile(r"transformer\."),
                   re.compile(r"h\.\d+\.attn\.(bias|masked_bias)"),
                   ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight",
                    "mlp.c_proj.weight"),
                   ("lm_head.weight", "wte.weight")),
    "gpt_neo": Family(gpt_neo, re.compile(r"transformer\."),
                      re.compile(r"h\.\d+\.attn\.attention\.(bias|masked_bias)"),
                      tied=("lm_head.weight", "wte.weight")),
    "opt": Family(opt, re.compile(r"(model\.)?decoder\."),
                  tied=("lm_head.weight", "embed_tokens.weight"), starts_with_bos=True),
    "gpt_neox": Family(gpt_neox, re.compile(r"gpt_neox\."),
                       re.compile(r"layers\.\d+\.attention\."
                                  r"(bias|masked_bias|rotary_emb\.inv_freq)")),
    "llama": Family(llama, re.compile(r"model\."),
                    re.compile(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq"),
                    tied=("lm_head.weight", "embed_tokens.weight"), starts_with_bos=True),
}
