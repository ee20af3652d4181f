"""config.json of every family: what is read out of it, and what is refused, by its name."""
import json
import math

import pytest

from weights import WeightsError
from weights.config import Ends, read_config, read_ends
from weights.values import MOST

# As the hub's files have them: the keys that say something about the model.
GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 50257,
        "n_positions": 1024, "n_ctx": 1024, "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5, "bos_token_id": 50256, "eos_token_id": 50256}
OPT_350M = {"model_type": "opt", "num_hidden_layers": 24, "num_attention_heads": 16,
            "hidden_size": 1024, "vocab_size": 50272, "max_position_embeddings": 2048,
            "ffn_dim": 4096, "word_embed_proj_dim": 512, "do_layer_norm_before": False,
            "activation_function": "relu", "bos_token_id": 2, "eos_token_id": 2, "dropout": 0.1}
OPT_125M = {"model_type": "opt", "num_hidden_layers": 12, "num_attention_heads": 12,
            "hidden_size": 768, "vocab_size": 50272, "max_position_embeddings": 2048,
            "ffn_dim": 3072, "bos_token_id": 2, "eos_token_id": 2}
GPT_NEO = {"model_type": "gpt_neo", "num_layers": 12, "num_heads": 12, "hidden_size": 768,
           "vocab_size": 50257, "max_position_embeddings": 2048, "window_size": 256,
           "intermediate_size": None, "attention_types": [[["global", "local"], 6]],
           "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "eos_token_id": 50256}
PYTHIA = {"model_type": "gpt_neox", "num_hidden_layers": 6, "num_attention_heads": 8,
          "hidden_size": 512, "vocab_size": 50304, "max_position_embeddings": 2048,
          "intermediate_size": 2048, "rotary_emb_base": 10000, "rotary_pct": 0.25,
          "hidden_act": "gelu", "layer_norm_eps": 1e-5, "use_parallel_residual": True,
          "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0}
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
LLAMA = {"model_type": "llama", "num_hidden_layers": 16, "num_attention_heads": 32,
         "num_key_value_heads": 8, "hidden_size": 2048, "vocab_size": 128256, "head_dim": 64,
         "max_position_embeddings": 131072, "intermediate_size": 8192, "rms_norm_eps": 1e-5,
         "rope_theta": 500000.0, "rope_scaling": LLAMA3, "hidden_act": "silu",
         "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
         "pretraining_tp": 1, "bos_token_id": 128000, "eos_token_id": 128001}
DEEPSEEK = {"model_type": "llama", "num_hidden_layers": 24, "num_attention_heads": 16,
            "num_key_value_heads": 16, "hidden_size": 2048, "vocab_size": 32256,
            "max_position_embeddings": 16384, "intermediate_size": 5504, "rms_norm_eps": 1e-6,
            "rope_theta": 100000, "rope_scaling": {"factor": 4.0, "type": "linear"},
            "hidden_act": "silu", "tie_word_embeddings": False,
            "bos_token_id": 32013, "eos_token_id": 32014}


@pytest.fixture
def write(tmp_path):
    """Write a config.json, changed here and there; what is changed to ... is left out."""
    def write(config, **changes):
        values = {key: value for key, value in {**config, **changes}.items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(values))
        return tmp_path / "config.json"
    return write


def sizes(n_layer, n_head, n_embd, n_rows, n_ctx):
    return {"n_layer": n_layer, "n_head": n_head, "n_embd": n_embd, "n_rows": n_rows,
            "n_ctx": n_ctx}


LLAMA3_ROPE = {"d_turned": 64, "theta": 500000.0, "factor": 32.0, "low": 1.0, "high": 4.0,
               "n_before": 8192}


@pytest.mark.parametrize("config, fields", [
    (GPT2, sizes(12, 12, 768, 50257, 1024)),
    (OPT_350M, {**sizes(24, 16, 1024, 50272, 2048), "n_mlp": 4096, "n_word": 512,
                "pre_norm": False}),
    (OPT_125M, {**sizes(12, 12, 768, 50272, 2048), "n_mlp": 3072, "n_word": 768,
                "pre_norm": True}),
    (GPT_NEO, {**sizes(12, 12, 768, 50257, 2048), "window": 256}),
    (PYTHIA, {**sizes(6, 8, 512, 50304, 2048), "n_mlp": 2048,
              "rope": {"d_turned": 16, "theta": 10000.0}}),
    (LLAMA, {**sizes(16, 32, 2048, 128256, 131072), "n_kv_head": 8, "n_mlp": 8192, "eps": 1e-5,
             "tied": True, "rope": LLAMA3_ROPE}),
    (DEEPSEEK, {**sizes(24, 16, 2048, 32256, 16384), "n_kv_head": 16, "n_mlp": 5504, "eps": 1e-6,
                "tied": False, "rope": {"d_turned": 128, "theta": 100000.0, "factor": 4.0}}),
])
def test_what_a_file_of_the_hub_says(write, config, fields):
    assert read_config(write(config)) == (config["model_type"], fields)


@pytest.mark.parametrize("config, left_out, key, usual", [
    (OPT_350M, "word_embed_proj_dim", "n_word", 1024),
    (OPT_350M, "do_layer_norm_before", "pre_norm", True),
    (LLAMA, "num_key_value_heads", "n_kv_head", 32),
    (LLAMA, "rms_norm_eps", "eps", 1e-6),
    (LLAMA, "tie_word_embeddings", "tied", False),
    (LLAMA, "rope_theta", "rope", {**LLAMA3_ROPE, "theta": 10000.0}),
    (LLAMA, "rope_scaling", "rope", {"d_turned": 64, "theta": 500000.0}),
    (PYTHIA, "rotary_pct", "rope", {"d_turned": 16, "theta": 10000.0}),
    (PYTHIA, "rotary_emb_base", "rope", {"d_turned": 16, "theta": 10000.0}),
])
def test_what_is_left_out_has_its_usual_value(write, config, left_out, key, usual):
    assert read_config(write(config, **{left_out: ...}))[1][key] == usual


def test_null_is_as_good_as_nothing(write):
    _, fields = read_config(write(LLAMA, num_key_value_heads=None, rope_scaling=None,
                                  head_dim=None))
    assert (fields["n_kv_head"], fields["rope"]) == (32, {"d_turned": 64, "theta": 500000.0})


@pytest.mark.parametrize("config, old, new", [
    (LLAMA, ("rope_theta", "rope_scaling"), {**LLAMA3, "rope_theta": 500000.0}),
    (DEEPSEEK, ("rope_theta", "rope_scaling"),
     {"rope_type": "linear", "factor": 4.0, "rope_theta": 100000}),
    (PYTHIA, ("rotary_emb_base", "rotary_pct"),
     {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.25}),
    ({**PYTHIA, "rotary_pct": 0.5}, ("rotary_emb_base", "rotary_pct"),
     {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 0.5}),
])
def test_positions_under_the_keys_of_2025_are_the_same(write, config, old, new):
    before = read_config(write(config))
    assert read_config(write(config, rope_parameters=new, **dict.fromkeys(old, ...))) == before


ROPES = [("yarn", "the rope type is 'yarn'"), ("dynamic", "'dynamic'"), ("longrope", "'longrope'"),
         (None, "the rope type is None"), (["llama3"], "the rope type is")]
REFUSED = [
    (GPT2, "add_cross_attention", True), (OPT_125M, "activation_function", "gelu"),
    (OPT_125M, "enable_bias", False), (OPT_125M, "layer_norm_elementwise_affine", False),
    (OPT_350M, "_remove_final_layer_norm", True), (OPT_125M, "tie_word_embeddings", False),
    (OPT_125M, "do_layer_norm_before", "yes"), (OPT_125M, "word_embed_proj_dim", 0),
    (OPT_125M, "ffn_dim", ...), (OPT_125M, "max_position_embeddings", 2.5),
    (GPT_NEO, "activation_function", "gelu"), (GPT_NEO, "layer_norm_epsilon", 1e-6),
    (GPT_NEO, "intermediate_size", 1024), (GPT_NEO, "tie_word_embeddings", False),
    (GPT_NEO, "window_size", -1), (GPT_NEO, "num_layers", None),
    (GPT_NEO, "attention_types", [[["global"], 12]]),
    (GPT_NEO, "attention_types", [[["local", "global"], 6]]),
    (GPT_NEO, "attention_types", [[["global", "local"], 5]]),
    (GPT_NEO, "attention_types", [[["global", "local"], 7]]),
    (GPT_NEO, "attention_types", [[["global", "local"], "6"]]),
    (GPT_NEO, "attention_types", "all"), (GPT_NEO, "attention_types", 7),
    (GPT_NEO, "attention_types", ...), (GPT_NEO, "attention_types", [[[], 10**12]]),
    (GPT_NEO, "attention_types", [[["global", "local"], 10**12]]),
    (PYTHIA, "hidden_act", "gelu_new"), (PYTHIA, "layer_norm_eps", 1e-6),
    (PYTHIA, "use_parallel_residual", False), (PYTHIA, "attention_bias", False),
    (PYTHIA, "tie_word_embeddings", True), (PYTHIA, "rotary_emb_base", 0),
    (PYTHIA, "rotary_pct", "all"), (PYTHIA, "intermediate_size", ...),
    (LLAMA, "hidden_act", "gelu"), (LLAMA, "attention_bias", True), (LLAMA, "mlp_bias", True),
    (LLAMA, "head_dim", 128), (LLAMA, "rms_norm_eps", 0), (LLAMA, "rms_norm_eps", math.nan),
    (LLAMA, "rope_theta", math.inf), (LLAMA, "rope_theta", True),
    (LLAMA, "tie_word_embeddings", None), (LLAMA, "num_key_value_heads", 2.0),
    (LLAMA, "hidden_size", MOST + 1), (LLAMA, "rope_scaling", "llama3"),
    (DEEPSEEK, "quantization_config", {"quant_method": "gptq"}),
]


@pytest.mark.parametrize("config, key, value", REFUSED)
def test_what_would_compute_something_else_is_refused_by_name(write, config, key, value):
    path = write(config, **{key: value})
    with pytest.raises(WeightsError) as error:
        read_config(path)
    assert str(error.value).startswith(f"{path}: {key} ")


@pytest.mark.parametrize("kind, words", ROPES)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_other_ways_to_stretch_positions_are_refused(write, kind, words, key):
    with pytest.raises(WeightsError, match=r"config.json: the rope type is") as error:
        read_config(write(LLAMA, **{key: {"rope_type": kind, "factor": 2.0}}))
    assert words in str(error.value)


@pytest.mark.parametrize("number", [key for key in LLAMA3 if key != "rope_type"])
def test_a_way_to_stretch_positions_needs_all_its_numbers(write, number):
    scaling = {key: value for key, value in LLAMA3.items() if key != number}
    with pytest.raises(WeightsError, match=rf"config.json: {number} must be a"):
        read_config(write(LLAMA, rope_scaling=scaling))


@pytest.mark.parametrize("share", [0.01, 0.05, 1.1, 1.5])  # of 64: 0, 3, 70, 96
def test_only_pairs_can_be_turned(write, share):
    with pytest.raises(WeightsError, match=r"of 64 numbers of a head .* would be turned"):
        read_config(write(PYTHIA, rotary_pct=share))


@pytest.mark.parametrize("config, ends", [
    (GPT2, Ends((), (50256,))), (OPT_125M, Ends((2,), (2,))), (GPT_NEO, Ends((), (50256,))),
    (PYTHIA, Ends((), (0,))), (LLAMA, Ends((128000,), (128001,))),
    ({**LLAMA, "eos_token_id": [128001, 128008, 128009]},
     Ends((128000,), (128001, 128008, 128009))),
    (DEEPSEEK, Ends((32013,), (32014,))),
])
def test_how_texts_begin_and_end(write, config, ends):
    assert read_ends(write(config)) == ends


@pytest.mark.parametrize("key, value", [
    ("eos_token_id", None), ("eos_token_id", []), ("eos_token_id", [1, None]),
    ("eos_token_id", -1), ("eos_token_id", True), ("bos_token_id", "<s>"), ("bos_token_id", ...)])
def test_ends_that_are_no_ids(write, key, value):
    with pytest.raises(WeightsError, match=r"config.json: .*eos_token_id"):
        read_ends(write(LLAMA, **{key: value}))
