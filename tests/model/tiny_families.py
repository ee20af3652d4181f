"""Small random checkpoints of every family, as transformers writes them, with its own logits.

Weights are large enough that every part shows, and texts longer than GPT-Neo's window.
"""
import json

import torch
import transformers

LENGTH = 330
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
IDS = {"vocab_size": 131, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 400}
LLAMA = {**SIZES, "intermediate_size": 96, "rms_norm_eps": 1e-5}
KINDS = {  # by name: transformers' class, and what its configuration is given, in the hub's keys
    "gpt2": ("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 400}),
    "gpt-neo": ("GPTNeoForCausalLM", {
        "hidden_size": 64, "num_layers": 3, "num_heads": 4, "max_position_embeddings": 400,
        "attention_types": [[["global", "local"], 1], [["global"], 1]], "window_size": 256}),
    "opt-125m": ("OPTForCausalLM", {**SIZES, "ffn_dim": 96, "word_embed_proj_dim": 64}),
    "opt-350m": ("OPTForCausalLM", {**SIZES, "ffn_dim": 96, "word_embed_proj_dim": 32,
                                    "do_layer_norm_before": False}),
    "pythia": ("GPTNeoXForCausalLM", {**SIZES, "intermediate_size": 96, "rotary_pct": 0.25}),
    "llama-3.2": ("LlamaForCausalLM", {
        **LLAMA, "num_key_value_heads": 2, "tie_word_embeddings": True,
        "rope_theta": 5e5, "rope_scaling": LLAMA3}),
    "llama-3.1": ("LlamaForCausalLM", {
        **LLAMA, "num_key_value_heads": 1, "tie_word_embeddings": False,
        "rope_theta": 5e5, "rope_scaling": {**LLAMA3, "factor": 8.0}}),
    "deepseek": ("LlamaForCausalLM", {
        **LLAMA, "num_key_value_heads": 4, "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
        "rope_theta": 1e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}),
}


def old_keys(config: dict) -> dict:
    """config.json as the hub's repositories have it, before transformers 5."""
    rope = config.pop("rope_parameters", None)
    if rope is None or config["model_type"] not in ("llama", "gpt_neox"):
        return config
    theta = rope.pop("rope_theta", 10000.0)
    if config["model_type"] == "gpt_neox":
        return {**config, "rotary_emb_base": theta, "rotary_pct": rope["partial_rotary_factor"]}
    scaling = None if rope.get("rope_type", "default") == "default" else rope
    return {**config, "rope_theta": theta, "rope_scaling": scaling}


@torch.no_grad()
def write_tiny(folder, name, seed=0):
    """Write a checkpoint into a folder, with the keys that the hub's files have; return both."""
    kind, sizes = KINDS[name]
    kind = getattr(transformers, kind)
    model = kind(kind.config_class(**IDS, **sizes)).eval()
    generator = torch.Generator().manual_seed(seed)
    for key, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        is_norm = weight.dim() == 1 and key.endswith("weight")
        weight.copy_(1 + 0.3 * noise if is_norm else 0.25 * noise)
    model.tie_weights()
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(old_keys(config)))
    return model


def text(seed=0, batch=2):
    return torch.randint(131, (batch, LENGTH), generator=torch.Generator().manual_seed(seed))
