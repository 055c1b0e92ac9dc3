import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HapaxError, RunFailed } from '../src/index.js'
import { Program, needsProgram } from './program.js'

const ECHO = { name: 'say', type: 'task', task: 'echo', input: { received: '{{ input }}' } }

describe('a client', needsProgram, () => {
  test('starts a run once per key, and reads its result', async t => {
    const hapax = (await Program.start(t)).client()
    await hapax.uploadDefinition({ name: 'echo', version: 1, steps: [ECHO] })
    const first = await hapax.start<{ received: unknown }>('echo', { order: 7 }, { key: 'order-7' })
    const second = await hapax.start('echo', { order: 7 }, { key: 'order-7' })
    assert.deepEqual([first.created, second.created, second.run.id], [true, false, first.run.id])
    assert.deepEqual((await first.run.result()).received, { order: 7 })
    assert.equal((await hapax.get(first.run.id)).status, 'COMPLETED')
    const runs = []
    for await (const run of hapax.list({ workflow: 'echo' })) runs.push(run.id)
    assert.deepEqual(runs, [first.run.id])
  })

  test('tells a refusal by its code', async t => {
    const hapax = (await Program.start(t)).client()
    await hapax.uploadDefinition({ name: 'echo', version: 1, steps: [ECHO] })
    await hapax.start('echo', { order: 7 }, { key: 'order-7' })
    await assert.rejects(hapax.start('echo', { order: 8 }, { key: 'order-7' }), (error: unknown) => {
      assert.ok(error instanceof HapaxError)
      assert.deepEqual([error.code, error.status, error.retryable], ['idempotency_key_conflict', 422, false])
      assert.deepEqual((error.problem.storedRequest as { differingPaths: string[] }).differingPaths, ['/order'])
      return true
    })
    await assert.rejects(hapax.get('run_00000000000000000000000000000000'), { code: 'not_found' })
  })

  test('tells that nobody answers', async () => {
    const { client } = await import('./nobody.js')
    await assert.rejects(client.get('run_1'), { code: 'no_answer', status: 0, retryable: true })
  })

  test('sends signals, settles promises, steers runs', async t => {
    const hapax = (await Program.start(t)).client()
    const steps = [
      { name: 'go', type: 'signal', signal: 'go' },
      { name: 'approval', type: 'promise', key: 'order:{{ input.id }}' },
    ]
    await hapax.uploadDefinition({ name: 'waits', version: 1, steps: steps.slice(0, 1) })
    const { run } = await hapax.start('waits', { id: 7 })
    assert.equal((await run.pause('lunch')).status, 'PAUSED')
    await run.resume()
    assert.deepEqual(await run.signal('go', { by: 'ada' }, { id: 'evt_1' }).then(sent => sent.stored), true)
    assert.deepEqual(await run.signal('go', { by: 'ada' }, { id: 'evt_1' }).then(sent => sent.stored), false)
    await run.result({ timeout: '30s' })

    const other = await hapax.start('waits', { id: 8 })
    await assert.rejects(other.run.result({ timeout: '10ms' }), { code: 'timed_out' })
    await other.run.cancel('the customer withdrew')
    await assert.rejects(other.run.result(), (error: unknown) => error instanceof RunFailed && error.status === 'CANCELLED')

    await hapax.request('POST', '/api/v1/promises', { id: 'p1', idempotencyKey: 'stripe:ch_7' })
    await hapax.promises.resolve({ key: 'stripe:ch_7' }, { cents: 500 })
    assert.deepEqual((await hapax.promises.get({ id: 'p1' })).value, { cents: 500 })
    await assert.rejects(hapax.promises.reject({ id: 'p1' }, { message: 'late' }), { code: 'promise_already_settled' })
  })

  test('moves business objects', async t => {
    const hapax = (await Program.start(t)).client()
    await hapax.entities.upload({
      name: 'billing',
      module: 'default',
      entity: 'invoice',
      statusTypes: ['draft', 'approved'],
      steps: [{ stepId: 10, stepKey: 'approve', status: 'draft', successfulState: 'approved' }],
    })
    await hapax.entities.create('invoice', { id: 'INV-1', status: 'draft', data: { total: 5 } })
    const { entity, operation } = await hapax.entities.transition('invoice', 'INV-1', 'approve')
    assert.deepEqual([operation.status, entity?.status], ['DONE', 'approved'])
    await assert.rejects(hapax.entities.transition('invoice', 'INV-1', 'approve'), HapaxError)
    const { allowedActions } = await hapax.entities.get('invoice', 'INV-1')
    assert.equal(allowedActions[0]?.enabled, false)
  })

  test('keeps 64-bit integers of a result', async t => {
    const hapax = (await Program.start(t)).client()
    await hapax.uploadDefinition({ name: 'echo', version: 1, steps: [ECHO] })
    const { run } = await hapax.start<{ received: unknown }>('echo', { n: 9_007_199_254_740_993n, m: 18_446_744_073_709_551_615n })
    const { received } = await run.result()
    assert.deepEqual(received, { n: 9_007_199_254_740_993n, m: 18_446_744_073_709_551_615n })
    assert.match(await run.rawResult(), /9007199254740993/)
  })
})
