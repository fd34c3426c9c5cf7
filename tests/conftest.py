"""Fixtures for all tests."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, as vLLM does; one loop, so that one engine serves them all."""
    return "asyncio"
