import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { PROGRAM, defer, folder, needsProgram } from './program.js'

const run = promisify(execFile)
const SDK = fileURLToPath(new URL('../..', import.meta.url))

/** The package as it is published. */
const STAGED = mkdtempSync(join(tmpdir(), 'hapax-staged-'))
before(async () => {
  await run(process.execPath, [join(SDK, 'scripts/stage.mjs'), '--version', '9.9.9', '--to', STAGED])
})
after(() => rmSync(STAGED, { recursive: true, force: true }))

/** Blocks of a language in a page. */
function blocks(page: string, language: string): string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, text = '']) => text)
}

test('the quickstart of the README runs in an empty folder, with the packed package installed', needsProgram, async t => {
  const place = folder(t)
  const page = readFileSync(join(SDK, 'README.md'), 'utf8')
  const [, start = ''] = blocks(page, 'sh')
  const [code = ''] = blocks(page, 'js')
  const [output = ''] = blocks(page, 'output')
  assert.ok(code.split('\n').length <= 35, 'thirty lines, more or less')

  // The program of this platform is the package beside it.
  const packed = JSON.parse((await run('npm', ['pack', '--json', '--pack-destination', place], { cwd: STAGED })).stdout) as { filename: string }[]
  const platform = `hapax-${process.platform}-${process.arch}`
  const program = join(place, platform)
  mkdirSync(join(program, 'bin'), { recursive: true })
  symlinkSync(PROGRAM ?? '', join(program, 'bin/hapax'))
  writeFileSync(join(program, 'package.json'), JSON.stringify({ name: platform, version: '9.9.9' }))

  const project = join(place, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{"private": true}')
  const tarball = join(place, packed[0]?.filename ?? '')
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--loglevel=error', program, tarball], { cwd: project })
  writeFileSync(join(project, 'order.mjs'), code)

  const server = spawn('npx', ['hapax', 'dev', '--json', '--listen', '127.0.0.1:0'], { cwd: project, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
  const { pid } = server
  defer(t, () => {
    // npx, the command and the program are one group.
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  })
  const [ready] = (await once(server.stdout, 'data')) as [Buffer]
  writeFileSync(join(project, 'ready.json'), ready)

  const { stdout } = await run('sh', ['-e', '-c', start], { cwd: project })
  const expected = output.trim().split('\n')
  const lines = stdout.trim().split('\n')
  assert.equal(lines.length, expected.length, stdout)
  for (const [at, line] of expected.entries()) assert.ok(lines[at]?.startsWith(line), `${lines[at] ?? ''} should begin with ${line}`)
})

test('the types of the packed package fit a strict TypeScript project', async t => {
  const place = folder(t)
  mkdirSync(join(place, 'node_modules'))
  symlinkSync(STAGED, join(place, 'node_modules/hapax'))
  writeFileSync(join(place, 'package.json'), '{"private": true, "type": "module"}')
  writeFileSync(
    join(place, 'use.ts'),
    `import { Hapax, workflow, type Stored } from 'hapax'
import { crashEverywhere } from 'hapax/testing'
interface Order { id: string; at: Date }
const order = workflow('order', async (ctx, input: Order) => {
  const charge = await ctx.step('charge', attempt => ({ key: attempt.key, at: new Date(), none: undefined }))
  const at: string = charge.at
  const first = await ctx.select({ go: ctx.signal<number>('go'), late: ctx.sleep('1d') })
  if (first.which === 'go') return { n: first.value, at }
  return { n: 0, at }
})
const hapax = new Hapax()
const { run, created } = await hapax.start(order, { id: '1', at: new Date() })
const n: number = (await run.result()).n
const isNew: boolean = created
// @ts-expect-error -- the input has no such field
await hapax.start(order, { id: '1', at: new Date(), wrong: 1 })
// @ts-expect-error -- the output is no string
const wrong: string = await run.result()
const stored: Stored<{ d: Date; f: () => void }> = { d: 'text' }
await crashEverywhere(order, { id: '1', at: new Date() })
export { n, isNew, wrong, stored }
`,
  )
  const options = { strict: true, noEmit: true, module: 'nodenext', target: 'es2022', lib: ['es2023', 'dom'], types: [], skipLibCheck: false, exactOptionalPropertyTypes: true }
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, files: ['use.ts'] }))
  const { stdout } = await run(process.execPath, [join(SDK, 'node_modules/typescript/bin/tsc'), '-p', place]).catch((error: unknown) => error as { stdout: string })
  assert.equal(stdout, '')
})
