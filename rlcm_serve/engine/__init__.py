"""vLLM under exit control, behind the contract in contract.py."""
