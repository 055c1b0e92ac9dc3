// Puts the package together: the SDK, the command, and the program of each platform as an optional dependency.
//
//   node scripts/stage.mjs --version 1.2.3 --to FOLDER
//
// It compiles first, and installs what compiling needs if it is not there.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

/** Platforms that have a package with the program. */
const PLATFORMS = ['linux-x64']

const sdk = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const root = resolve(sdk, '../..')
const { values } = parseArgs({ options: { version: { type: 'string' }, to: { type: 'string' } } })
if (!values.to) {
  console.error('stage: say where to: --to FOLDER')
  process.exit(2)
}
const to = resolve(values.to)
const manifest = JSON.parse(readFileSync(join(sdk, 'package.json'), 'utf8'))
const version = values.version ?? manifest.version

function run(command, args) {
  const { status, error } = spawnSync(command, args, { cwd: sdk, stdio: ['ignore', 2, 2] })
  if (error) console.error(`stage: ${command}: ${error.message}`)
  if (status !== 0) process.exit(1)
}

if (!existsSync(join(sdk, 'node_modules/typescript'))) run('npm', ['ci', '--loglevel=error'])
rmSync(to, { recursive: true, force: true })
mkdirSync(to, { recursive: true })
run(process.execPath, [join(sdk, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json', '--outDir', join(to, 'dist')])

for (const part of ['bin', 'README.md']) cpSync(join(sdk, part), join(to, part), { recursive: true })
for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE']) cpSync(join(root, licence), join(to, licence))
writeFileSync(join(to, 'dist/version.js'), `/** Version of this package. */\nexport const VERSION = '${version}';\n`)
delete manifest.scripts
delete manifest.devDependencies
const programs = Object.fromEntries(PLATFORMS.map(platform => [`hapax-${platform}`, version]))
const packed = { ...manifest, version, optionalDependencies: programs }
writeFileSync(join(to, 'package.json'), `${JSON.stringify(packed, null, 2)}\n`)
