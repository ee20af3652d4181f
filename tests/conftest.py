"""What every test assumes: no network, no display, and one thread for small tensors."""
import os

import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub and transformers are imported
os.environ["MPLBACKEND"] = "Agg"  # read when matplotlib is imported
torch.set_num_threads(1)  # many small operations on two contended threads are 50 times slower
