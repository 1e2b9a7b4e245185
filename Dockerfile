# The commands `retold` and `python -m projector`; the servers are other containers.
FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /srv/retold
COPY requirements.lock ./
RUN python -m pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY projector projector
COPY migrations migrations
COPY seeds seeds
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

FROM python:3.11-slim
ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# Its own layer: dependencies change less often than code.
COPY requirements-runtime.lock ./
RUN python -m pip install --require-hashes -r requirements-runtime.lock
COPY --from=build /srv/retold/dist dist
RUN python -m pip install --no-deps dist/*.whl
RUN useradd --system --no-create-home --shell /usr/sbin/nologin retold
USER retold
CMD ["python", "-m", "projector"]
