"""What the tests of training share."""

from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from training.tasks.tokenizer import build_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """Seconds to build, and no test changes it."""
    return build_tokenizer()
