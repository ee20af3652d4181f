"""Writes a checkpoint of ours as GGUF, the file that llama.cpp reads.

Ids are all that is compared, so the file has no vocabulary, only its size.
"""
from pathlib import Path

import gguf
import numpy as np
from torch import Tensor

from model import GPT2
from weights import load_model
from weights.output import replacing

FORMATS = {"float32": gguf.GGMLQuantizationType.F32, "bfloat16": gguf.GGMLQuantizationType.BF16}
FILE_TYPES = {"float32": gguf.LlamaFileType.ALL_F32, "bfloat16": gguf.LlamaFileType.MOSTLY_BF16}
TOP = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
IN_BLOCK = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
            "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def write_gguf(folder: Path, file: Path, dtype: str) -> None:
    """Write the GPT-2 in `folder` into `file`, its matrices in this number format.

    Biases, norms and positions stay float32, as llama.cpp wants them.
    """
    model = load_model(folder)
    assert isinstance(model, GPT2)  # the other families have other names there
    config = model.config
    with replacing(file) as unfinished:
        writer = gguf.GGUFWriter(unfinished, "gpt2")
        writer.add_block_count(config.n_layer)
        writer.add_context_length(config.n_ctx)
        writer.add_embedding_length(config.n_embd)
        writer.add_feed_forward_length(4 * config.n_embd)
        writer.add_head_count(config.n_head)
        writer.add_layer_norm_eps(model.ln_f.eps)
        writer.add_tokenizer_model("none")
        writer.add_vocab_size(model.wte.num_embeddings)
        writer.add_file_type(FILE_TYPES[dtype])
        for name, tensor in model.state_dict().items():
            add(writer, gguf_name(name), tensor, dtype)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def gguf_name(name: str) -> str:
    """Return what GGUF calls a tensor: h.3.mlp.c_fc.weight is blk.3.ffn_up.weight."""
    part, kind = name.rsplit(".", 1)
    if part in TOP:
        return f"{TOP[part]}.{kind}"
    _, n, inner = part.split(".", 2)
    return f"blk.{n}.{IN_BLOCK[inner]}.{kind}"


def add(writer: gguf.GGUFWriter, name: str, tensor: Tensor, dtype: str) -> None:
    """Add one tensor. A matrix is [out, in] in both, an official file's [in, out]."""
    values: np.ndarray = tensor.numpy()
    if tensor.ndim == 2 and not name.startswith("position_embd") and dtype != "float32":
        values = gguf.quants.quantize(values, FORMATS[dtype])
        writer.add_tensor(name, values, raw_dtype=FORMATS[dtype])
    else:
        writer.add_tensor(name, values)
