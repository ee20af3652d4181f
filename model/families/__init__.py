"""Families of models beside GPT-2, one file each; README.md says what changed since GPT-2."""
from model.families.gpt_neo import GPTNeo, GPTNeoConfig
from model.families.gpt_neox import GPTNeoX, GPTNeoXConfig
from model.families.llama import Llama, LlamaConfig
from model.families.opt import OPT, OPTConfig

__all__ = ["OPT", "GPTNeo", "GPTNeoConfig", "GPTNeoX", "GPTNeoXConfig", "Llama", "LlamaConfig",
           "OPTConfig"]
