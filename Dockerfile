# docker build --target cpu --build-arg TORCH_INDEX=... -t rlcm-serve:cpu .   (TORCH_INDEX: see README)
# docker build --target cuda -t rlcm-serve:cuda .
#
# It listens on all addresses, so it asks for API keys, which live in /home/rlcm (a volume, or a database by URL):
# docker run --rm -v rlcm:/home/rlcm rlcm-serve:cpu keys new --scope solve --name me

FROM python:3.11-slim-bookworm AS wheel
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r requirements/build.lock \
    && pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.11-slim-bookworm AS base
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONUNBUFFERED=1 \
    VLLM_NO_USAGE_STATS=1 \
    DO_NOT_TRACK=1 \
    HF_HUB_DISABLE_TELEMETRY=1 \
    RLCM_HOST=0.0.0.0
RUN useradd --create-home --uid 10001 rlcm
WORKDIR /home/rlcm
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["rlcm"]
CMD ["serve"]

FROM base AS cuda
# Triton compiles its launchers at run time, so gcc stays in the image.
# FlashInfer's sampler would want nvcc as well; vLLM's own does not.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    VLLM_USE_FLASHINFER_SAMPLER=0
RUN --mount=source=requirements,target=/requirements \
    pip install --require-hashes --no-deps --only-binary :all: -r /requirements/cuda.lock
RUN --mount=from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps /wheels/*.whl
USER 10001

FROM base AS cpu
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=""
RUN --mount=source=requirements,target=/requirements \
    pip install --require-hashes --no-deps --only-binary :all: \
    ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -r /requirements/cpu.lock
RUN --mount=from=wheel,source=/wheels,target=/wheels \
    pip install --no-deps /wheels/*.whl
USER 10001
