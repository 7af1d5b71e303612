# The server, from the lock file: every package at the version that is tested, uv itself by its hash.
#
#   docker build -t omnigraph-server .
#   docker run -p 8080:8080 --user "$(id -u):$(id -g)" -v "$PWD:/data" omnigraph-server people.omni --unauthenticated
#
# Its own user may not write to a folder of somebody else: hence --user, or a folder of user 10001.
FROM python:3.11-slim
WORKDIR /app
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY scripts ./scripts
COPY src ./src
RUN bash -c '. scripts/lib.sh && install_packages runtime' && rm -rf /root/.cache
RUN useradd --create-home --uid 10001 omnigraph
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OMNIGRAPH_BIND=0.0.0.0:8080 \
    OMNIGRAPH_LOG_FORMAT=json
USER omnigraph
WORKDIR /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=3)"]
ENTRYPOINT ["omnigraph-server"]
