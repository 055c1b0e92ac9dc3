import assert from 'node:assert/strict'
import { type TestContext, describe, test } from 'node:test'
import { Failure, HapaxError, Worker, type WorkerOptions, action, rejected, silent, task, workflow } from '../src/index.js'
import type { ServerMessage } from '../src/core/messages.js'
import { RawJson } from '../src/json/index.js'
import { FakeServer } from './fake-server.js'

/** A worker against a server in memory. Both end with the test. */
async function world(t: TestContext, options: WorkerOptions): Promise<{ server: FakeServer; worker: Worker; ran: Promise<void> }> {
  const server = await FakeServer.start()
  const worker = new Worker({ url: server.url, signals: false, log: silent, ...options })
  const ran = worker.run()
  ran.catch(() => undefined)
  t.after(async () => {
    await worker.stop()
    await ran.catch(() => undefined)
    await server.stop()
  })
  return { server, worker, ran }
}

const order = workflow('order', async (ctx, input: { id: string }) => {
  const charge = await ctx.step('charge', attempt => `ch ${attempt.key}`)
  const parcel = await ctx.step('ship', attempt => `parcel ${attempt.key}`)
  return { id: input.id, charge, parcel }
})

/** Something that a test waits for. */
function latch(): { open: () => void; opened: Promise<void> } {
  let open!: () => void
  const opened = new Promise<void>(resolve => (open = resolve))
  return { open, opened }
}

describe('a worker', () => {
  test('runs a workflow, one commit per step', async t => {
    const { server } = await world(t, { workflows: [order] })
    const run = await server.ended(server.start('order', { id: 'A' }))
    assert.equal(run.output?.text, '{"id":"A","charge":"ch run_1:charge","parcel":"parcel run_1:ship"}')
    const commits = server.requests.filter(request => request.path.endsWith('/commit'))
    assert.equal(commits.length, 3, 'ask; outcome and ask; outcome and return')
  })

  test('shares commits between runs', async t => {
    const { server } = await world(t, { workflows: [order] })
    const runs = Array.from({ length: 50 }, (_, n) => server.engine.start('order', 1, new RawJson(`{"id":"${n}"}`)))
    server.wake()
    for (const run of runs) assert.equal((await server.ended(run)).status, 'COMPLETED')
    const commits = server.requests.filter(request => request.path.endsWith('/commit'))
    assert.ok(commits.length < 20, `${commits.length} commits for 150 steps`)
  })

  test('offers what it has', async t => {
    const { server } = await world(t, {
      workflows: [order],
      tasks: [task('send-mail', () => 1)],
      actions: [action('Close', () => 1)],
      concurrency: 7,
      instance: 'slot-1',
      name: 'billing',
    })
    await server.until(() => server.opened.length > 0)
    const { name, instance, sdk, concurrency, workflows, tasks, actions } = server.opened[0] as unknown as Record<string, unknown>
    assert.deepEqual(
      { name, instance, sdk, concurrency, workflows, tasks, actions },
      {
        name: 'billing',
        instance: 'slot-1',
        sdk: 'typescript',
        concurrency: 7,
        workflows: [{ name: 'order', version: 1 }],
        tasks: ['send-mail'],
        actions: ['Close'],
      },
    )
  })

  for (const fault of ['lose-request', 'lose-answer', 'busy', 'garbage'] as const) {
    test(`sends a commit again, with the same number, after ${fault}`, async t => {
      let entered = 0
      const once = workflow('once', (ctx, _: null) => ctx.step('a', () => ++entered))
      const { server } = await world(t, { workflows: [once] })
      const failed = new Set<number>()
      server.fault = (path, { sequence }) => {
        if (!path.endsWith('/commit') || failed.has(sequence)) return undefined
        failed.add(sequence)
        return fault
      }
      const run = await server.ended(server.start('once', null))
      assert.equal(run.status, 'COMPLETED')
      assert.equal(entered, 1)
      await server.until(() => {
        const numbers = server.requests.filter(request => request.path.endsWith('/commit')).map(request => request.body.sequence)
        return numbers.length === 2 * new Set(numbers).size
      })
    })
  }

  test('opens a new session when its own is over, and hands in what it knows', async t => {
    const inside = latch()
    const goOn = latch()
    let entered = 0
    const slow = workflow('slow', (ctx, _: null) =>
      ctx.step('a', async attempt => {
        entered++
        inside.open()
        await goOn.opened
        return attempt.fence
      }),
    )
    const { server, worker } = await world(t, { workflows: [slow] })
    const run = server.start('slow', null)
    await inside.opened
    server.endSessions()
    await server.until(() => server.opened.length === 2 && run.fence === 2)
    goOn.open()
    await server.ended(run)
    assert.equal(run.output?.text, '2')
    assert.equal(entered, 2)
    await server.until(() => server.results.length > 0)
    assert.deepEqual(Object.keys(server.results[0]?.late as object), ['key', 'attempt', 'fence', 'output'])
    assert.equal(worker.status.state, 'running')
  })

  test('opens one new session when both lanes hear that its own is over', async t => {
    const inside = latch()
    const goOn = latch()
    const flow = workflow('flow', (ctx, _: null) =>
      ctx.step('a', async () => {
        inside.open()
        await goOn.opened
        return 1
      }),
    )
    const { server, worker } = await world(t, { workflows: [flow] })
    const run = server.start('flow', null)
    await inside.opened
    server.endSession('wks_1')
    goOn.open()
    await server.ended(run)
    assert.equal(server.opened.length, 2)
    assert.equal(worker.status.state, 'running')
  })

  test('tells a task that nobody waits for it any more', async t => {
    const inside = latch()
    const slow = task('slow', async (_input, call) => {
      inside.open()
      await new Promise(resolve => call.signal.addEventListener('abort', resolve))
      throw call.signal.reason as Failure
    })
    const { server } = await world(t, { tasks: [slow] })
    server.extra.push({ type: 'task', call: 'c1', name: 'slow', key: 'k', attempt: 1, fence: 1 })
    server.wake()
    await inside.opened
    server.extra.push({ type: 'abort', call: 'c1', why: 'timeout' })
    server.wake()
    await server.until(() => server.results.length === 1)
    assert.equal((server.results[0]?.failure as Failure).code, 'aborted')
  })

  test('tells an attempt that its session is over', async t => {
    const inside = latch()
    const told = latch()
    let reason: unknown
    const slow = workflow('slow', (ctx, _: null) =>
      ctx.step('a', async attempt => {
        if (attempt.fence > 1) return 'second'
        inside.open()
        await new Promise(resolve => attempt.signal.addEventListener('abort', resolve))
        reason = attempt.signal.reason
        assert.throws(() => attempt.ensureStillHeld(), Failure)
        told.open()
        return 'first'
      }),
    )
    const { server } = await world(t, { workflows: [slow] })
    const run = server.start('slow', null)
    await inside.opened
    server.endSessions()
    await told.opened
    assert.ok(reason instanceof Failure)
    assert.equal(reason.code, 'lease_lost')
    await server.ended(run)
    assert.equal(run.output?.text, '"second"')
  })

  test('ends when another takes its instance over', async t => {
    const { server, ran } = await world(t, { workflows: [order], instance: 'slot-1' })
    await server.until(() => server.opened.length === 1)
    server.fault = () => 'session_replaced'
    server.wake()
    await assert.rejects(ran, (error: unknown) => error instanceof HapaxError && error.code === 'session_replaced')
    assert.equal(server.opened.length, 1)
  })

  test('begins nothing while its hold has passed, and goes on with the next', async t => {
    let entered = 0
    const once = workflow('once', (ctx, _: null) => ctx.step('a', () => ++entered))
    const { server } = await world(t, { workflows: [once] })
    server.holdFor = '0ms'
    await server.until(() => server.requests.some(request => request.path.endsWith('/poll')))
    // The hold of the answers so far is over at once.
    const run = server.start('once', null)
    await server.until(() => run.activation?.inFlight.size === 1)
    const seen = server.requests.length
    await server.until(() => server.requests.length >= seen + 3)
    assert.equal(entered, 0)
    server.holdFor = '20s'
    server.wake()
    await server.ended(run)
    assert.equal(entered, 1)
  })

  test('finishes what runs, gives the rest back, and ends', async t => {
    const inside = latch()
    const goOn = latch()
    const slow = workflow('slow', async (ctx, _: null) => {
      await ctx.step('a', async () => {
        inside.open()
        await goOn.opened
        return 1
      })
      await ctx.step('b', () => 2)
    })
    const { server, worker, ran } = await world(t, { workflows: [slow] })
    const run = server.start('slow', null)
    await inside.opened
    await worker.stop()
    goOn.open()
    await ran
    assert.equal(server.closed, 1)
    assert.equal(run.steps.get('a')?.status, 'COMPLETED')
    assert.notEqual(run.steps.get('b')?.status, 'COMPLETED')
    assert.equal(run.activation, undefined)
  })

  test('forgets the run that waits the longest when there are too many', async t => {
    const waits = workflow('waits', (ctx, _: null) => ctx.signal('go'))
    const { server, worker } = await world(t, { workflows: [waits], cacheSize: 1 })
    const first = server.start('waits', null)
    await server.until(() => first.steps.has('go'))
    const second = server.start('waits', null)
    await server.until(() => first.activation === undefined)
    assert.equal(worker.status.cached, 1)
    server.engine.signal(first.id, 'go', new RawJson('"back"'))
    server.wake()
    // Nothing tells the memory engine that the signal is news for a run that nobody holds.
    first.isDue = true
    await server.ended(first)
    assert.equal(first.output?.text, '"back"')
    assert.equal(second.status, 'OPEN')
  })

  test('names what the code awaited when it goes on outside of its turn', async t => {
    const foreign = workflow('foreign', async (ctx, _: null) => {
      const open = ctx.signal('never')
      await new Promise(resolve => setImmediate(resolve))
      await ctx.step('a', () => 1)
      return open
    })
    const { server } = await world(t, { workflows: [foreign] })
    const run = await server.ended(server.start('foreign', null))
    assert.equal(run.status, 'PAUSED')
    assert.match(run.violation ?? '', /asked for step "a" outside of its turn: between steps it awaited something that is not the context's/)
  })

  test('an effect that ends while it is undone is evidence, and no outcome of the undo', async t => {
    const inside = latch()
    const undoing = latch()
    const goOn = latch()
    const undo = latch()
    const flow = workflow('flow', (ctx, _: null) =>
      ctx.step(
        'a',
        async () => {
          inside.open()
          await goOn.opened
          return 'happened'
        },
        {
          compensate: async () => {
            undoing.open()
            await undo.opened
          },
        },
      ),
    )
    const { server } = await world(t, { workflows: [flow] })
    const run = server.start('flow', null)
    await inside.opened
    // The server gives the attempt up, and begins to undo what it may have done.
    const about = { run: run.id, activation: 'a1', op: 1 }
    server.extra.push(
      { type: 'abort', ...about, attempt: 1, why: 'timeout' },
      { type: 'attempt', ...about, id: 'a~undo', do: 'undo', attempt: 1, key: `${run.id}:a~undo`, fence: 1, output: new RawJson('null') },
    )
    server.wake()
    await undoing.opened
    goOn.open()
    await server.until(() => server.results.length === 1)
    assert.equal((server.results[0]?.late as { key: string }).key, `${run.id}:a`)
    const outcomes = () => server.requests.flatMap(({ body }) => body.runs ?? []).flatMap(entry => entry.items).filter(item => 'outcome' in item)
    assert.equal(outcomes().length, 0)
    undo.open()
    await server.until(() => outcomes().length === 1)
  })

  test('runs tasks and actions', async t => {
    const mail = task('send-mail', (input: { to: string }, call) => `sent to ${input.to} under ${call.key}`)
    const close = action('Close', (entity: { id: string; data: { open: boolean } }) => (entity.data.open ? { closed: entity.id } : rejected('not open')))
    const { server } = await world(t, { tasks: [mail], actions: [close] })
    const facts = { attempt: 1, fence: 3, timeout: '30s' }
    const entity = (open: boolean) => ({ type: 'invoice', id: 'INV-1', status: 'approved', data: new RawJson(`{"open":${open}}`) })
    server.extra.push(
      { type: 'task', call: 'c1', name: 'send-mail', input: new RawJson('{"to":"ada"}'), key: 'run_1:mail', ...facts },
      { type: 'task', call: 'c2', name: 'unknown', key: 'run_1:x', ...facts },
      { type: 'action', call: 'c3', name: 'Close', entity: entity(true), step: 'close', key: 'op_1', ...facts },
      { type: 'action', call: 'c4', name: 'Close', entity: entity(false), step: 'close', key: 'op_2', ...facts },
    )
    server.wake()
    await server.until(() => server.results.length === 4)
    const results = Object.fromEntries(server.results.map(result => [String(result.call), result]))
    assert.equal((results.c1?.output as RawJson).text, '"sent to ada under run_1:mail"')
    assert.equal((results.c2?.failure as Failure).code, 'unknown_task')
    assert.equal((results.c3?.output as RawJson).text, '{"closed":"INV-1"}')
    assert.equal(results.c4?.rejected, 'not open')
  })

  test('reads a long log page by page', async t => {
    const two = workflow('two', async (ctx, _: null) => [await ctx.step('a', () => 0), await ctx.step('b', () => 0)])
    const { server } = await world(t, { workflows: [two] })
    const page = (id: string, more: boolean) => JSON.stringify({ records: [{ id, kind: 'step', status: 'COMPLETED', output: id }], logMore: more })
    const activate = { type: 'activate', run: 'run_9', activation: 'a1', workflow: 'two', version: 1, fence: 1, logMore: true, log: [] }
    server.extra.push(activate as unknown as ServerMessage)
    const paths: string[] = []
    server.fault = path => {
      if (path.includes('/log?')) paths.push(path)
      return undefined
    }
    server.log = after => page(after === 0 ? 'a' : 'b', after === 0)
    server.wake()
    await server.until(() => server.requests.some(({ body }) => body.runs?.some(entry => entry.items.some(item => 'return' in item))))
    const items = server.requests.flatMap(({ body }) => body.runs ?? []).flatMap(entry => entry.items)
    assert.deepEqual(
      items.map(item => Object.keys(item)[0]),
      ['op', 'took', 'op', 'took', 'return'],
    )
    assert.equal(paths.length, 2)
    assert.match(paths[1] ?? '', /activation=a1&after=1$/)
  })

  test('says how it is on its health endpoint', async t => {
    const listening = latch()
    let port = 0
    const health = {
      port: 0,
      onListening: (taken: number) => {
        port = taken
        listening.open()
      },
    }
    const { server } = await world(t, { workflows: [order], health })
    await listening.opened
    await server.until(() => server.requests.length > 1)
    const answer = await fetch(`http://127.0.0.1:${port}/healthz`)
    assert.equal(answer.status, 200)
    const { status, state } = (await answer.json()) as Record<string, unknown>
    assert.deepEqual({ status, state }, { status: 'ok', state: 'running' })
  })
})
