import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, describe, test } from 'node:test'
import {
  type AnyWorkflow,
  type Ctx,
  type Hapax,
  Failure,
  HapaxError,
  RunFailed,
  Worker,
  type WorkerOptions,
  rawJson,
  silent,
  task,
  workflow,
} from '../src/index.js'
import { billing, closeBilling } from '../examples/entity-actions.js'
import { Program, defer, folder, needsProgram } from './program.js'
import { WorkerProcess } from './worker-program.js'

interface World {
  program: Program
  hapax: Hapax
  worker: Worker
  ran: Promise<void>
}

/** A server, and a worker in this process. */
async function world(t: TestContext, workflows: AnyWorkflow[], options: WorkerOptions = {}): Promise<World> {
  const program = await Program.start(t)
  const worker = new Worker({ ...program.ready, workflows, signals: false, log: silent, ...options })
  const ran = worker.run()
  ran.catch(() => undefined)
  defer(t, async () => {
    await worker.stop()
    await ran.catch(() => undefined)
  })
  await worker.ready()
  return { program, hapax: program.client(), worker, ran }
}

describe('workflows on a server', needsProgram, () => {
  test('steps, timers, promises, signals, races, children and values', async t => {
    const ship = workflow('ship', (ctx, order: string) => ctx.step('pack', attempt => `${order} ${attempt.attempt}`))
    const all = workflow('all', async (ctx, input: { id: string }) => {
      const approval = ctx.promise<{ by: string }>('approval', { key: `order:${input.id}` })
      const asked = await ctx.step('ask', () => approval.id)
      const first = await ctx.select({ approved: approval, late: ctx.sleep('1h') })
      const [a, b] = await ctx.all([ctx.step('left', () => 'l'), ctx.step('right', () => 'r')])
      const parcel = await ctx.child(ship, input.id)
      await ctx.sleep('10ms')
      const go = await ctx.signal<number>('go')
      return { asked, which: first.which, a, b, parcel, go, random: ctx.random() < 1, now: ctx.now() > new Date(0) }
    })
    const { hapax } = await world(t, [all, ship])
    const { run } = await hapax.start(all, { id: '7' }, { key: 'all-7' })
    await run.signal('go', 5)
    await hapax.promises.resolve({ key: 'order:7' }, { by: 'ada' })
    assert.deepEqual(await run.result({ timeout: '30s' }), {
      asked: `${run.id}:approval`,
      which: 'approved',
      a: 'l',
      b: 'r',
      parcel: '7 1',
      go: 5,
      random: true,
      now: true,
    })
  })

  test('a scope that fails is undone, and the run goes on, also after a replay', async t => {
    const undone: string[] = []
    const saga = workflow('saga', async (ctx, _: object) => {
      let failed = ''
      try {
        await ctx.scope(async inner => {
          await inner.step('hotel', () => 'H', { compensate: output => undone.push(`cancel ${output}`) })
          await inner.step('flight', () => 'F', { compensate: output => undone.push(`cancel ${output}`) })
          await inner.step('pay', () => {
            throw Failure.permanent('declined', { code: 'declined', details: { n: 9_007_199_254_740_993n } })
          })
        })
      } catch (error) {
        failed = Failure.from(error).code ?? ''
      }
      await ctx.step('mail', () => 'sent')
      await ctx.signal('go')
      return { failed, end: await ctx.step('end', () => 'end') }
    })
    const other = workflow('other', (ctx, _: object) => ctx.signal('never'))
    const { hapax } = await world(t, [saga, other], { cacheSize: 1 })
    const { run } = await hapax.start(saga, {})
    while ((await run.detail()).steps.every(step => step.id !== 'go')) await hapax.get(run.id)
    // Another run takes its place in the cache, so that it is replayed.
    const evictor = await hapax.start(other, {})
    while ((await evictor.run.detail()).steps.length === 0) await hapax.get(evictor.run.id)
    await run.signal('go')
    assert.deepEqual(await run.result({ timeout: '30s' }), { failed: 'declined', end: 'end' })
    assert.deepEqual(undone, ['cancel F', 'cancel H'])
  })

  test('a run that fails undoes its effects, and says why', async t => {
    const undone: string[] = []
    const flow = workflow('flow', async (ctx, _: object) => {
      for (const name of ['one', 'two']) await ctx.step(name, () => name, { compensate: output => undone.push(output) })
      throw Failure.permanent('sold out', { code: 'sold_out' })
    })
    const { hapax } = await world(t, [flow])
    const { run } = await hapax.start(flow, {})
    await assert.rejects(run.result({ timeout: '30s' }), (error: unknown) => {
      assert.ok(error instanceof RunFailed)
      assert.deepEqual([error.status, error.message, error.code], ['FAILED', 'sold out', 'sold_out'])
      return true
    })
    assert.deepEqual(undone, ['two', 'one'])
  })

  test('retries by its policy, and gives up on a permanent failure', async t => {
    let calls = 0
    const flow = workflow('flow', async (ctx, _: object) => {
      const attempts = await ctx.step(
        'flaky',
        attempt => {
          calls++
          if (attempt.attempt < 3) throw Failure.retryable('busy')
          return attempt.attempt
        },
        { retry: { maxAttempts: 5, first: '1ms', factor: 1, cap: '5ms' } },
      )
      const error = await ctx
        .step('never', () => {
          throw Failure.permanent('no', { code: 'nope' })
        })
        .catch((failure: unknown) => failure as Failure)
      return { attempts, code: error instanceof Failure ? error.code : 'none' }
    })
    const { hapax } = await world(t, [flow])
    const { run } = await hapax.start(flow, {})
    assert.deepEqual(await run.result({ timeout: '30s' }), { attempts: 3, code: 'nope' })
    assert.equal(calls, 3)
  })

  test('a claimed step with an unknown outcome is in doubt until a person rules', async t => {
    const wire = workflow('wire', async (ctx, _: object) => ({
      reference: await ctx.step(
        'wire',
        () => {
          throw new Error('socket hang up')
        },
        { claimed: true, timeout: '5s' },
      ),
    }))
    const { hapax } = await world(t, [wire])
    const { run } = await hapax.start(wire, {})
    let doubt
    while (doubt === undefined) for await (const found of hapax.doubts.list()) doubt = found
    assert.deepEqual([doubt.runId, doubt.stepId], [run.id, 'wire'])
    await hapax.doubts.resolve(doubt, { resolution: 'happened', reason: 'the bank says so', output: 'W-1' })
    assert.deepEqual(await run.result({ timeout: '30s' }), { reference: 'W-1' })
  })

  test('64-bit integers, decimals and Unicode survive byte for byte', async t => {
    const input = '{"min":-9223372036854775808,"max":18446744073709551615,"price":1.10,"text":"Žluťoučký 🐎 \\u2028"}'
    const exact = workflow('exact', async (ctx, given: Record<string, unknown>) => ({ step: await ctx.step('a', () => given), given }), {
      numbers: 'exact',
    })
    const bigs = workflow('bigs', async (ctx, given: { n: bigint }) => ({ n: await ctx.step('add', () => given.n + 1n) }))
    const { hapax } = await world(t, [exact, bigs])
    const { run } = await hapax.start('exact', rawJson(input))
    const numbers = [/-9223372036854775808/g, /18446744073709551615/g, /1\.10/g, /🐎/g]
    const output = await run.rawResult({ timeout: '30s' })
    for (const number of numbers) assert.equal(output.match(number)?.length, 2, `${number} in ${output}`)
    const big = await hapax.start(bigs, { n: 9_223_372_036_854_775_807n })
    assert.deepEqual(await big.run.result({ timeout: '30s' }), { n: 9_223_372_036_854_775_808n })
  })

  test('code that does not fit its history pauses the run, and a deploy resumes it', async t => {
    const before = workflow('flow', async (ctx, _: object) => {
      await ctx.step('a', () => 1)
      return ctx.signal('go')
    })
    const wrong = workflow('flow', async (ctx, _: object) => {
      await ctx.step('b', () => 1)
      return ctx.signal('go')
    })
    const { hapax, worker, ran, program } = await world(t, [before])
    const { run } = await hapax.start(before, {})
    while ((await run.detail()).steps.every(step => step.id !== 'go')) await hapax.get(run.id)
    await worker.stop()
    await ran
    const deploy = async (flow: AnyWorkflow) => {
      const next = new Worker({ ...program.ready, workflows: [flow], signals: false, log: silent })
      const running = next.run()
      await next.ready()
      return async () => {
        await next.stop()
        await running
      }
    }
    const endWrong = await deploy(wrong)
    await run.signal('go', 'x')
    let paused = await run.get()
    while (paused.status !== 'PAUSED') paused = await run.get()
    // It names what the history has, and what the code asks for.
    assert.match(JSON.stringify(paused), /the history has a step at [^,]*a[^,]*, but the code waits at [^,]*b/)
    await endWrong()
    const endRight = await deploy(before)
    await run.resume('the right code is back')
    assert.equal(await run.result({ timeout: '30s' }), 'x')
    await endRight()
  })

  test('continues as new', async t => {
    const pages = workflow('pages', async (ctx: Ctx, input: { page: number }): Promise<{ pages: number }> => {
      await ctx.step('read', () => input.page)
      if (input.page < 3) return ctx.continueAsNew({ page: input.page + 1 })
      return { pages: input.page }
    })
    const { hapax } = await world(t, [pages])
    const { run } = await hapax.start(pages, { page: 1 })
    assert.deepEqual(await run.result({ timeout: '30s' }), { pages: 3 })
  })
})

describe('business objects and documents', needsProgram, () => {
  test("the seed's entity workflow runs with its action in this worker", async t => {
    const closed: string[] = []
    const ledger = {
      close: async (invoice: string, total: number, key: string) => {
        closed.push(`${invoice} ${total} ${key}`)
        return Promise.resolve('R-1')
      },
    }
    const { hapax } = await world(t, [], { actions: [closeBilling(ledger)] })
    await hapax.entities.upload(billing)
    for (const [id, total] of [
      ['INV-1', 1999],
      ['INV-2', 0],
    ] as const) {
      await hapax.entities.create('invoice', { id, status: 'draft', data: { total, customer: 'ada' } })
      await hapax.entities.transition('invoice', id, 'approve', { requester: 'admin' })
    }
    const first = await hapax.entities.transition('invoice', 'INV-1', 'close', { requester: 'admin' })
    assert.deepEqual([first.operation.status, first.entity?.status, closed.length], ['DONE', 'closed', 1])
    assert.deepEqual(first.operation.result, { receipt: 'R-1' })
    assert.match(closed[0] ?? '', /^INV-1 1999 \S+$/)
    const second = await hapax.entities.transition('invoice', 'INV-2', 'close', { requester: 'admin' }).catch((error: unknown) => error)
    assert.ok(second instanceof HapaxError, 'there is nothing to bill')
    assert.equal((await hapax.entities.get('invoice', 'INV-2')).entity.status, 'approved')
    assert.equal(closed.length, 1)
  })

  test('a step of a document calls a task of this worker', async t => {
    const sendMail = task('send-mail', (input: { to: string }, call) => ({ sent: input.to, key: call.key }))
    const { hapax } = await world(t, [], { tasks: [sendMail] })
    await hapax.uploadDefinition({
      name: 'mail',
      version: 1,
      steps: [{ name: 'mail', type: 'task', task: 'send-mail', input: { to: '{{ input.to }}' } }],
    })
    const { run } = await hapax.start<{ sent: string; key: string }>('mail', { to: 'ada@example.com' })
    assert.deepEqual(await run.result({ timeout: '30s' }), { sent: 'ada@example.com', key: `${run.id}:mail` })
  })
})

/** A fault may cost a lease, and no more. */
const FAULT = { timeout: 90_000 }

describe('faults', needsProgram, () => {
  test('a worker that is killed is replaced by its instance at once, and no step before is run again', FAULT, async t => {
    const program = await Program.start(t)
    const block = join(folder(t), 'block')
    writeFileSync(block, '')
    const first = new WorkerProcess(t, program.ready, { INSTANCE: 'slot-1' })
    await first.says('ready')
    const { run } = await program.client().start<string[]>('chain', { block, at: 'three' })
    await first.says('enter three 1')
    await first.end('SIGKILL')
    rmSync(block)
    const second = new WorkerProcess(t, program.ready, { INSTANCE: 'slot-1' })
    await second.says('leave five')
    assert.equal((await run.result({ timeout: '60s' })).length, 5)
    assert.deepEqual(first.said, ['ready', 'enter one 1', 'leave one', 'enter two 1', 'leave two', 'enter three 1'])
    assert.ok(second.said[1]?.startsWith('enter three'), second.said.join(', '))
    assert.equal(await second.end('SIGTERM'), 0)
    assert.equal(second.said.at(-1), 'stopped')
  })

  test('a claimed step in a worker that is killed is never run again by itself', FAULT, async t => {
    const program = await Program.start(t)
    const block = join(folder(t), 'block')
    writeFileSync(block, '')
    const first = new WorkerProcess(t, program.ready, { INSTANCE: 'slot-1' })
    await first.says('ready')
    const { run } = await program.client().start('chain', { block, at: 'three', claimed: true })
    await first.says('enter three 1')
    await first.end('SIGKILL')
    rmSync(block)
    const second = new WorkerProcess(t, program.ready, { INSTANCE: 'slot-1' })
    const hapax = program.client()
    let doubt
    while (doubt === undefined) for await (const found of hapax.doubts.list()) doubt = found
    await hapax.doubts.resolve(doubt, { resolution: 'happened', reason: 'it did', output: 'key' })
    await run.result({ timeout: '60s' })
    assert.ok(!second.said.some(line => line.startsWith('enter three')), second.said.join(', '))
  })

  test('a server that is killed costs no run', FAULT, async t => {
    let calls = 0
    const inside: { open?: () => void } = {}
    const opened = new Promise<void>(resolve => (inside.open = resolve))
    const goOn: { open?: () => void } = {}
    const mayGoOn = new Promise<void>(resolve => (goOn.open = resolve))
    const flow = workflow('flow', async (ctx, _: object) => {
      const first = await ctx.step('a', () => 'a')
      const second = await ctx.step('b', async () => {
        calls++
        inside.open?.()
        await mayGoOn
        return 'b'
      })
      return [first, second]
    })
    const { hapax, program } = await world(t, [flow])
    const { run } = await hapax.start(flow, {})
    await opened
    await program.kill()
    goOn.open?.()
    await program.restart()
    assert.deepEqual(await program.client().run(run.id).result({ timeout: '90s' }), ['a', 'b'])
    assert.ok(calls <= 2)
  })

  test('a worker whose instance is taken over ends', FAULT, async t => {
    const waits = workflow('waits', (ctx, _: object) => ctx.signal('go'))
    const { hapax, ran, program } = await world(t, [waits], { instance: 'slot-1' })
    const { run } = await hapax.start(waits, {})
    while ((await run.detail()).steps.length === 0) await hapax.get(run.id)
    const next = new Worker({ ...program.ready, workflows: [waits], instance: 'slot-1', signals: false, log: silent })
    const running = next.run()
    await assert.rejects(ran, (error: unknown) => error instanceof HapaxError && error.code === 'session_replaced')
    await run.signal('go', 1)
    assert.equal(await run.result({ timeout: '30s' }), 1)
    await next.stop()
    await running
  })
})
