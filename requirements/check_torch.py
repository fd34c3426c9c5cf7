"""Fail unless PyTorch is the CPU build: the lock leaves out what the CUDA build has to load."""

import sys
from importlib.metadata import version

torch = version("torch")
if not torch.endswith("+cpu"):
    sys.exit(
        f"PyTorch {torch} is not the CPU build. Remove the environment (make distclean) and "
        "install again with TORCH_INDEX set as the README says."
    )
