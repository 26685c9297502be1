# A container that holds dpcalc and nothing of the checkout but its package and man page:
#   docker build --tag dpcalc . && docker run --rm --volume "$PWD:/work:ro" dpcalc epsilon config.yaml
# The tag moves with the releases of Python. To pin what it names: `docker buildx imagetools inspect python:3.13-slim` prints
# the digest; write `python:3.13-slim@sha256:...` in both lines, and dependabot keeps it up to date.
FROM python:3.13-slim AS build
COPY .github/action-requirements.txt /tmp/requirements.txt
RUN python -m venv /opt/dpcalc && /opt/dpcalc/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement /tmp/requirements.txt
COPY pyproject.toml README.md LICENSE /src/
COPY docs/dpcalc.1 /src/docs/dpcalc.1
COPY dpcalc /src/dpcalc
RUN /opt/dpcalc/bin/pip install --no-cache-dir --no-deps --no-build-isolation /src

FROM python:3.13-slim
COPY --from=build /opt/dpcalc /opt/dpcalc
RUN useradd --create-home reader
USER reader
WORKDIR /work
ENTRYPOINT ["/opt/dpcalc/bin/dpcalc"]
