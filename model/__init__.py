"""GPT-2, written out: the configuration, the key/value cache, and the forward pass."""
from model.config import OFFICIAL_CONFIGS, GPT2Config
from model.gpt2 import GPT2
from model.kv_cache import KVCache

__all__ = ["GPT2", "OFFICIAL_CONFIGS", "GPT2Config", "KVCache"]
