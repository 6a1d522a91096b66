#!/bin/sh
# As LocalAI's images are started: run.sh --addr HOST:PORT. The worker says which Node it runs on.
exec "${MUSTER_NODE:-node}" "$(dirname "$0")/server.mjs" "$@"
