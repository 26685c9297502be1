# A container that holds dpcalc and nothing of the checkout but its package and man page:
#   docker build --tag dpcalc . && docker run --rm --volume "$PWD:/work:ro" dpcalc epsilon config.yaml
# The image is named by its digest, in both lines; dependabot keeps it up to date. What the tag names today:
# `docker buildx imagetools inspect python:3.13-slim`.
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
COPY .github/action-requirements.txt /tmp/requirements.txt
RUN python -m venv /opt/dpcalc && /opt/dpcalc/bin/pip install --no-cache-dir --require-hashes --only-binary :all: --requirement /tmp/requirements.txt
COPY pyproject.toml README.md LICENSE /src/
COPY docs/dpcalc.1 /src/docs/dpcalc.1
COPY dpcalc /src/dpcalc
RUN /opt/dpcalc/bin/pip install --no-cache-dir --no-deps --no-build-isolation /src

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
COPY --from=build /opt/dpcalc /opt/dpcalc
RUN useradd --create-home reader
USER reader
WORKDIR /work
ENTRYPOINT ["/opt/dpcalc/bin/dpcalc"]
