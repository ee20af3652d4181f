"""A small checkpoint of every family, with random weights, written by transformers."""
import torch

SIZES = {"vocab_size": 131, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
USUAL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "max_position_embeddings": 64}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
# What transformers calls the family, and what is given to its configuration.
FAMILIES = {
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
}


@torch.no_grad()
def write_family(folder, name):
    """Write it, and return the folder. In several shards, but for the smallest of them."""
    import transformers

    family, sizes = FAMILIES[name]
    config = getattr(transformers, f"{family}Config")(**SIZES, **sizes)
    heads = {"GPT2": "GPT2LMHeadModel"}
    model = getattr(transformers, heads.get(family, f"{family}ForCausalLM"))(config)
    generator = torch.Generator().manual_seed(1)
    for key, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        weight.copy_(1 + 0.2 * noise if "norm" in key and key.endswith("weight") else 0.3 * noise)
    model.tie_weights()
    model.save_pretrained(folder, max_shard_size="40kB")
    return folder
