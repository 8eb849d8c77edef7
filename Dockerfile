# The manager: only the lock file and the sources go in, and nothing runs as root. The result is read
# only by its owner's rights, and needs no writable file system. docker and podman build it.
#
#   make image         (podman build -t registry.example.com/ctrlruntime-manager:0.1.0 .)
#   make image-all     every platform of docker-bake.hcl, pushed
#
# A release pins its base: --build-arg BASE_DIGEST=@sha256:...

ARG BASE=python:3.11-slim-bookworm
ARG BASE_DIGEST=

FROM ${BASE}${BASE_DIGEST} AS build
USER 65532:65532
WORKDIR /tmp
COPY requirements.lock pyproject.toml hack/runtime-lock.py /tmp/
RUN python3 /tmp/runtime-lock.py /tmp/requirements.lock /tmp/pyproject.toml > /tmp/runtime.lock
# What installs stays in an environment of its own, which the image does not have.
RUN python3 -m venv /tmp/tools && python3 -m venv --without-pip /tmp/venv
RUN /tmp/tools/bin/python -m pip --python /tmp/venv/bin/python install --quiet --disable-pip-version-check --no-compile --no-deps \
    --require-hashes --only-binary=:all: -r /tmp/runtime.lock
COPY --chown=65532:65532 ctrlruntime /tmp/app/ctrlruntime
# The test environment stays out, but for the module that names what to install.
RUN find /tmp/app/ctrlruntime/envtest -mindepth 1 -not -path '*/envtest/__init__.py' -delete
COPY --chown=65532:65532 apis /tmp/app/apis
COPY --chown=65532:65532 internal /tmp/app/internal
COPY --chown=65532:65532 manager /tmp/app/manager
# The name by which messages call the program: kubectl exec … -- manager top
RUN printf '#!/opt/manager/venv/bin/python\nfrom manager.program import main\nmain()\n' > /tmp/venv/bin/manager && chmod 0755 /tmp/venv/bin/manager
# Without the client that few kubeconfigs import: compiled it is as large as all others.
RUN /tmp/venv/bin/python -m compileall -q -j 0 -x '/kubernetes_asyncio/' /tmp/venv/lib /tmp/app

FROM ${BASE}${BASE_DIGEST}
ARG BASE
ARG BASE_DIGEST
ARG REVISION=
LABEL org.opencontainers.image.title="ctrlruntime-manager" \
      org.opencontainers.image.description="The manager of tenants, instances and node sets, built on ctrlruntime" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The ctrlruntime maintainers" \
      org.opencontainers.image.url="https://ctrlruntime.dev" \
      org.opencontainers.image.documentation="https://ctrlruntime.dev/docs" \
      org.opencontainers.image.source="https://ctrlruntime.dev/source" \
      org.opencontainers.image.base.name="${BASE}${BASE_DIGEST}"
COPY --from=build /tmp/venv /opt/manager/venv
COPY --from=build /tmp/app /opt/manager/app
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONPATH=/opt/manager/app PATH=/opt/manager/venv/bin:$PATH
WORKDIR /opt/manager/app
USER 65532:65532
ENTRYPOINT ["/opt/manager/venv/bin/python", "-m", "manager"]
CMD ["run"]
