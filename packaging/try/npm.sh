# The npm packages, into an empty folder, without a registry.
. /try/first_answer.sh

mkdir /work
cd /work
npm install --offline --no-audit --no-fund --loglevel=error /packages/hapax-linux-*.tgz $(ls /packages/hapax-[0-9]*.tgz)
npx --offline hapax --version
# The SDK is in the same package.
node --input-type=module -e "import { workflow } from 'hapax'; import 'hapax/testing'; workflow('order', () => 1)"
# npx itself takes a while to start, and counts. It does not wait for what it started; the command does.
ends_with=143 first_answer npx --offline hapax
first_answer node_modules/.bin/hapax

# It ends with what the program ends with.
status=0
npx --offline hapax health --server http://127.0.0.1:1 2> /dev/null || status=$?
[ "$status" = 3 ]
