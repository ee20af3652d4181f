"""A small checkpoint of every family that can be loaded: random, written by transformers."""
import torch

from weights.checkpoint import MODELS

SIZES = {"vocab_size": 131, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
USUAL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
# By name: the model_type, transformers' class, and what is given to its configuration.
ALL = {
    "gpt2": ("gpt2", "GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4,
                                         "n_positions": 64}),
    "opt": ("opt", "OPTForCausalLM", {**USUAL, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "opt-350m": ("opt", "OPTForCausalLM", {**USUAL, "ffn_dim": 48, "word_embed_proj_dim": 16,
                                           "do_layer_norm_before": False}),
    "gpt_neo": ("gpt_neo", "GPTNeoForCausalLM",
                {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 8,
                 "max_position_embeddings": 64, "attention_types": [[["global", "local"], 1]]}),
    "gpt_neox": ("gpt_neox", "GPTNeoXForCausalLM", {**USUAL, "intermediate_size": 48}),
    # Two heads of keys: with four processes two of them keep the same one.
    "llama": ("llama", "LlamaForCausalLM", {**USUAL, "intermediate_size": 48,
                                            "num_key_value_heads": 2, "rope_parameters": LLAMA3}),
}
FAMILIES = {name: family for name, family in ALL.items() if family[0] in MODELS}


@torch.no_grad()
def write_family(folder, name):
    """Write it in several shards, and return the folder."""
    import transformers

    _, kind, sizes = FAMILIES[name]
    kind = getattr(transformers, kind)
    model = kind(kind.config_class(**SIZES, **sizes))
    generator = torch.Generator().manual_seed(1)
    for key, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        weight.copy_(1 + 0.2 * noise if "norm" in key and key.endswith("weight") else 0.3 * noise)
    model.tie_weights()
    model.save_pretrained(folder, max_shard_size="40kB")
    return folder


def give_weights(group, share):
    """Every process calls this: process 0 gets {name: weight} of each, the others nothing."""
    own = {name.replace(".product.", "."): weight.data
           for name, weight in share.model.named_parameters()}
    return group.gather(own)
