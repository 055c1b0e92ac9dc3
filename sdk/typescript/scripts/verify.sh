#!/bin/sh
# Checks the TypeScript SDK: dependencies as locked, types, lint, tests.
#
# HAPAX_BIN is the hapax program that the tests start. Without it the tests that need a server are skipped, which counts as a
# failure if HAPAX_REQUIRE_BIN is set.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${HAPAX_BIN:-}" ] && [ ! -x "$HAPAX_BIN" ]; then
  echo "verify: HAPAX_BIN=$HAPAX_BIN is no program" >&2
  exit 1
fi
if [ -z "${HAPAX_BIN:-}" ] && [ -n "${HAPAX_REQUIRE_BIN:-}" ]; then
  echo "verify: set HAPAX_BIN to the hapax program" >&2
  exit 1
fi

npm ci --loglevel=error
rm -rf dist build
npx tsc -p tsconfig.json --noEmit
npx eslint .
npx typedoc --logLevel Warn
node scripts/test.mjs
