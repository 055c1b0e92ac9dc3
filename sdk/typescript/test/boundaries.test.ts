// Kills workers and servers, which are real processes, at each boundary between two messages of their talk.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type Hapax, HapaxError, type Run } from '../src/index.js'
import { type Boundary, BoundaryProxy } from './boundary-proxy.js'
import { Program, folder, needsProgram } from './program.js'
import { WorkerProcess } from './worker-program.js'

/** Commits of a run with three steps: what it asks first, then each outcome with what follows. */
const COMMITS = 4

const BOUNDARIES: readonly Boundary[] = [
  { call: 'open', number: 1, when: 'after' },
  { call: 'poll', number: 1, when: 'after' },
  ...Array.from({ length: COMMITS }, (_, at) => at + 1).flatMap(number => [
    { call: 'commit', number, when: 'before' } as const,
    { call: 'commit', number, when: 'after' } as const,
  ]),
]

const shown = ({ call, number, when }: Boundary) => `${when} ${call} ${number}`

/** Effects that happened, by key. */
function effects(books: string): string[] {
  return existsSync(books) ? readFileSync(books, 'utf8').split('\n').filter(Boolean) : []
}

/** Waits for the end of a run. A person rules on its doubt by the books. */
async function outcome(hapax: Hapax, run: Run<string[]>, books: string): Promise<string[]> {
  for (;;) {
    const { status } = await run.get()
    if (status === 'COMPLETED') return run.result({ timeout: '30s' })
    assert.ok(['PENDING', 'RUNNING', 'WAITING'].includes(status), status)
    for await (const doubt of hapax.doubts.list()) {
      if (doubt.runId !== run.id) continue
      const happened = effects(books).includes(doubt.effectKey)
      const ruling = happened ? { resolution: 'happened', output: doubt.effectKey } as const : { resolution: 'did_not_happen' } as const
      // The worker may have told in the meantime.
      await hapax.doubts.resolve(doubt, { ...ruling, reason: 'the books say so' }).catch((error: unknown) => {
        if (!(error instanceof HapaxError)) throw error
      })
    }
  }
}

/** The claimed effect happened once; a plain one once, or again if the fault came while its worker was inside. */
function check(run: Run<string[]>, output: string[], books: string, at: string): void {
  const keys = ['before', 'wire', 'after'].map(step => `${run.id}:${step}`)
  assert.deepEqual(output, keys, at)
  const found = effects(books).filter(key => key.startsWith(run.id))
  const [before, wire, after] = keys.map(key => found.filter(one => one === key).length)
  assert.equal(wire, 1, `${at}: ${found.join(', ')}`)
  assert.ok(found.length <= 4 && before !== 0 && after !== 0, `${at}: ${found.join(', ')}`)
}

describe('a kill at each boundary between two messages', needsProgram, () => {
  test('of the worker costs the step that it was inside at most', { timeout: 240_000 }, async t => {
    const program = await Program.serve(t, '2s')
    const hapax = program.client()
    const trial = async (boundary: Boundary, number: number) => {
      const name = `errand-${number}`
      const books = join(folder(t), 'books')
      const proxy = await BoundaryProxy.start(t, () => program.ready.url)
      const launch = () => {
        const ready = { url: proxy.url, apiKey: program.workerKey }
        return new WorkerProcess(t, ready, { ERRAND: name, INSTANCE: name })
      }
      const victim: { worker?: WorkerProcess } = {}
      const struck = proxy.strikeAt(boundary, async () => {
        await victim.worker?.end('SIGKILL')
      })
      victim.worker = launch()
      if (boundary.call === 'open') await struck
      else await victim.worker.says('ready')
      const next = boundary.call === 'open' ? launch() : undefined
      await next?.says('ready')
      const { run } = await hapax.start<string[]>(name, { books })
      await struck
      const successor = next ?? launch()
      check(run, await outcome(hapax, run, books), books, shown(boundary))
      assert.equal(await successor.end('SIGTERM'), 0, shown(boundary))
    }
    const waiting = BOUNDARIES.map((boundary, number) => () => trial(boundary, number))
    const lane = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await next()
    }
    await Promise.all([lane(), lane(), lane()])
  })

  test('of the server costs no run, and repeats at most the step that was inside', { timeout: 240_000 }, async t => {
    const program = await Program.serve(t, '2s')
    const hapax = program.client({ retryFor: '30s' })
    const proxy = await BoundaryProxy.start(t, () => program.ready.url)
    const worker = new WorkerProcess(t, { url: proxy.url, apiKey: program.workerKey })
    await worker.says('ready')
    for (const boundary of BOUNDARIES.filter(({ call }) => call !== 'open')) {
      const books = join(folder(t), 'books')
      const struck = proxy.strikeAt(boundary, () => program.restart())
      const { run } = await hapax.start<string[]>('errand', { books })
      await struck
      check(run, await outcome(hapax, run, books), books, shown(boundary))
    }
    assert.equal(await worker.end('SIGTERM'), 0)
  })
})

describe('a worker that is stopped past its lease', needsProgram, () => {
  test('begins no claimed effect when it goes on, and its late outcome settles the doubt', { timeout: 120_000 }, async t => {
    const program = await Program.serve(t, '2s')
    const hapax = program.client()
    const ready = { url: program.ready.url, apiKey: program.workerKey }
    const gates = folder(t)
    const stopped = new WorkerProcess(t, ready)
    await stopped.says('ready')
    const start = async (at: string, claimed: boolean) => {
      const block = join(gates, at)
      writeFileSync(block, '')
      const { run } = await hapax.start<string[]>('chain', { block, at, claimed })
      return { run, block }
    }
    const inside = await start('three', true)
    const before = await start('two', false)
    await stopped.says('enter three 1')
    await stopped.says('enter two 1')
    stopped.signal('SIGSTOP')
    rmSync(before.block)
    const other = new WorkerProcess(t, ready)
    await other.says('ready')
    // The other one makes the step again that may be repeated, and goes on. What is claimed waits for a person.
    assert.equal((await before.run.result({ timeout: '60s' })).length, 5)
    let doubts = 0
    while (doubts === 0) for await (const doubt of hapax.doubts.list()) doubts += Number(doubt.runId === inside.run.id)
    const entered = stopped.said.filter(line => line.startsWith('enter')).length
    rmSync(inside.block)
    stopped.signal('SIGCONT')
    // The effect did happen. Its outcome comes late, and settles the doubt: nobody has to rule.
    assert.equal((await inside.run.result({ timeout: '60s' }))[2], `${inside.run.id}:three`)
    const again = other.said.filter(line => line === 'enter three 1' || line === 'enter three 2').length
    assert.equal(again, 1, `that of the other run alone: ${other.said.join(', ')}`)
    assert.equal(await other.end('SIGTERM'), 0)
    // It has a new session, and works on.
    const later = await start('none', false)
    assert.equal((await later.run.result({ timeout: '60s' })).length, 5)
    assert.ok(stopped.said.filter(line => line.startsWith('enter')).length >= entered + 5, stopped.said.join(', '))
    assert.equal(await stopped.end('SIGTERM'), 0)
  })
})
