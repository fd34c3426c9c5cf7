"""The unmodified OpenAI client, against an app without a network or one on a real port."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpxClient
from openai.types.chat import ChatCompletionChunk

from tests.rlcm_serve.api.serving import PROBLEM

ASKED: dict[str, Any] = {
    "model": "scripted",
    "messages": [{"role": "user", "content": PROBLEM}],
}


def client_of(app: FastAPI, **options: Any) -> AsyncOpenAI:
    """A client without retries; its responses arrive only when complete."""
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return AsyncOpenAI(
        base_url="http://localhost/v1",
        http_client=DefaultAsyncHttpxClient(transport=transport),
        **{"api_key": "unused", "max_retries": 0} | options,
    )


@asynccontextmanager
async def on_a_port(app: FastAPI) -> AsyncIterator[str]:
    """Serves a running app on a real port, so that responses arrive as they are sent."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve(sockets=[listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        server.should_exit = True
        await running


async def chunks_of(stream: AsyncStream[ChatCompletionChunk]) -> list[ChatCompletionChunk]:
    """All chunks; raises the error if the stream ends early."""
    async with stream:
        return [chunk async for chunk in stream]


def joined(chunks: list[ChatCompletionChunk], name: str) -> str | None:
    """The sum of the deltas in one field of the message; None if no delta has the field."""
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    parts = [getattr(delta, name, None) for delta in deltas]
    told = [part for part in parts if part is not None]
    return "".join(told) if told else None
