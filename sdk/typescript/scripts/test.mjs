// Compiles everything, and runs the tests whose names match the arguments, or all.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'

const root = new URL('..', import.meta.url)

function run(command, args) {
  const { status } = spawnSync(command, args, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

run('npx', ['tsc', '-p', 'tsconfig.build.json'])
run('npx', ['tsc', '-p', 'tsconfig.json'])
const wanted = process.argv.slice(2)
const tests = readdirSync(new URL('build/test/', root))
  .filter(name => name.endsWith('.test.js') && (wanted.length === 0 || wanted.some(word => name.includes(word))))
  .map(name => `build/test/${name}`)
run(process.execPath, ['--test', '--test-timeout=300000', '--test-reporter=spec', ...tests])
