#!/bin/sh
# Lints, type-checks and tests the Python SDK. Tests against the server need HAPAX_BIN, the path of the program.
#
#   HAPAX_BIN=target/debug/hapax sdk/python/scripts/verify.sh [PYTEST OPTION...]
#
# PYTHON chooses the interpreter (default python3), HAPAX_PYTHON_VENV the environment (default target/python-sdk).
set -eu
if [ -n "${HAPAX_BIN:-}" ]; then
  HAPAX_BIN=$(realpath "$HAPAX_BIN")
  export HAPAX_BIN
else
  echo "verify.sh: HAPAX_BIN is not set, so the tests against the server are skipped" >&2
fi
unset HAPAX_URL HAPAX_SERVER HAPAX_API_KEY HAPAX_STORE HAPAX_DATA HAPAX_LISTEN PYTHONPATH
cd "$(dirname "$0")/.."
venv=${HAPAX_PYTHON_VENV:-../../target/python-sdk}
if ! cmp -s requirements-dev.txt "$venv/requirements-dev.txt"; then
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r requirements-dev.txt
  cp requirements-dev.txt "$venv/requirements-dev.txt"
fi
"$venv/bin/ruff" check --quiet .
"$venv/bin/ruff" format --check --quiet .
"$venv/bin/pyright" --pythonpath "$venv/bin/python"
"$venv/bin/mkdocs" build --strict --quiet
"$venv/bin/python" -m pytest "$@"
