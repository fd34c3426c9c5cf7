"""A backend of Triton named `cpu`, without which vLLM turns Triton off on a CPU.

Triton's interpreter (`TRITON_INTERPRET=1`) runs the kernels itself, so nothing is compiled.
"""
