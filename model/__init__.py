"""GPT-2, written out: the configuration, the key/value cache, and the forward pass."""
from model.decoder import Decoder, Place
from model.gpt2 import GPT2, OFFICIAL_CONFIGS, GPT2Config
from model.kv_cache import KVCache

__all__ = ["GPT2", "OFFICIAL_CONFIGS", "Decoder", "GPT2Config", "KVCache", "Place"]
