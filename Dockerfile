# The commands `retold` and `python -m projector`; the servers are other containers.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /srv/retold

# Its own layer: dependencies change less often than code.
COPY requirements.lock ./
RUN python -m pip install --require-hashes -r requirements.lock

COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY projector projector
COPY migrations migrations
COPY seeds seeds
RUN python -m pip install --no-deps --no-build-isolation .

RUN useradd --system --no-create-home --shell /usr/sbin/nologin retold
USER retold
CMD ["python", "-m", "projector"]
