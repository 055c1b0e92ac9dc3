import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Ctx, cannotTell, didNotHappen, Failure, happened, workflow } from '../src/index.js'
import { CrashError, FakeProvider, crashEverywhere, crashReport } from '../src/testing/index.js'

describe('crashEverywhere', () => {
  test('a charge under its key may run again, and never harms', async () => {
    const card = new FakeProvider<string>()
    const order = workflow('order', async (ctx, cents: number) => {
      const charge = await ctx.step('charge', attempt => card.request(attempt.key, () => `ch_${cents}`))
      return ctx.step('ship', attempt => `parcel for ${charge} under ${attempt.key}`)
    })
    const report = await crashEverywhere(order, 1999, { providers: [card] })
    assert.ok(report.crashes > 8, report.toString())
    assert.ok(report.zombies > 1)
    report.assertEffect('charge', 'atLeastOnce')
    assert.equal(report.effect('charge').most, 2)
    assert.equal(card.happened, 1)
  })

  test('an effect without key, claim or probe is told as a story', async () => {
    const wire = workflow('wire', (ctx, cents: number) => ctx.step('wire', () => `sent ${cents}`))
    await assert.rejects(crashEverywhere(wire, 5), (error: Error) => {
      assert.ok(error instanceof CrashError)
      assert.match(error.message, /^crash after `wire` ran and before it was recorded → `wire` ran twice; declare it claimed/)
      return true
    })
  })

  test('a claimed wire happens at most once, and may be in doubt', async () => {
    const wire = workflow('wire', (ctx, cents: number) => ctx.step('wire', () => `sent ${cents}`, { claimed: true, timeout: '30s' }))
    const report = await crashEverywhere(wire, 5)
    report.assertEffect('wire', 'atMostOnce')
    assert.ok(report.effect('wire').canBeInDoubt)
    assert.throws(() => report.assertEffect('wire', 'exactlyOnce'), CrashError)
  })

  test('a claimed wire with a probe is exactly once', async () => {
    const bank = new FakeProvider<string>({ honoursKeys: false })
    const wire = workflow('wire', (ctx, cents: number) =>
      ctx.step('wire', attempt => bank.request(attempt.key, () => `sent ${cents}`), {
        claimed: true,
        probe: attempt => {
          const found = bank.find(attempt.key)
          return found === undefined ? didNotHappen : happened(found)
        },
      }),
    )
    const report = await crashEverywhere(wire, 5, { providers: [bank] })
    report.assertEffect('wire', 'exactlyOnce')
  })

  test('a probe that denies what happened is found out', async () => {
    const wire = workflow('wire', (ctx, cents: number) =>
      ctx.step('wire', () => `sent ${cents}`, { claimed: true, probe: () => didNotHappen }),
    )
    await assert.rejects(crashEverywhere(wire, 5), /`wire` ran twice, though it is claimed/)
  })

  test('one denial of a probe is not believed', async () => {
    let asked = 0
    let fewest = Infinity
    const wire = workflow('wire', (ctx, _: null) =>
      ctx.step(
        'wire',
        attempt => {
          if (attempt.attempt > 1) fewest = Math.min(fewest, asked)
          return 1
        },
        {
          claimed: true,
          probe: () => {
            asked++
            return didNotHappen
          },
        },
      ),
    )
    await crashReport(wire, null, { providers: [{ reset: () => (asked = 0) }] })
    assert.equal(fewest, 2)
  })

  test('a run that never completes is red', async () => {
    const stuck = workflow('stuck', (ctx, _: null) => ctx.signal('never'))
    await assert.rejects(crashEverywhere(stuck, null), /without a crash → the run is waiting: it waits for never \(signal\); give it what it waits for/)
    await crashEverywhere(stuck, null, { expect: 'waiting' })
    await assert.rejects(crashEverywhere(stuck, null, { expect: 'failed' }), /leave \{ expect: "failed" \} out/)
  })

  test('a run that fails is red, unless it is meant to', async () => {
    const fails = workflow('fails', (ctx, _: null) =>
      ctx.step('charge', attempt => {
        throw Failure.permanent(`declined under ${attempt.key}`)
      }),
    )
    await assert.rejects(crashEverywhere(fails, null), /the run is failed: declined/)
    await crashEverywhere(fails, null, { expect: 'failed' })
  })

  test('a run that waits for something foreign is red', async () => {
    const foreign = workflow('foreign', async (_ctx: Ctx, _: null) => {
      await new Promise(resolve => setTimeout(resolve, 1))
      return 'done'
    })
    await assert.rejects(crashEverywhere(foreign, null), /not deterministic: the workflow waits for something that is not the context's/)
  })

  test('code that does not repeat itself is named', async () => {
    let calls = 0
    const moody = workflow('moody', (ctx, _: null) => ctx.step(calls++ % 2 === 0 ? 'even' : 'odd', attempt => attempt.key))
    await assert.rejects(crashEverywhere(moody, null), /not deterministic: the history has a step at "(even|odd)", but the code/)
  })

  test('a saga undoes what it did, whatever crashes', async () => {
    const rooms = new FakeProvider<string>()
    const trip = workflow('trip', async (ctx, _: null) => {
      try {
        await ctx.scope(async inner => {
          await inner.step('book', attempt => rooms.request(attempt.key, () => 'room 1'), {
            compensate: (_room, attempt) => rooms.request(attempt.key, () => 'cancelled'),
          })
          await inner.step('pay', attempt => {
            throw Failure.permanent(`declined under ${attempt.key}`)
          })
        })
      } catch {
        return 'stayed at home'
      }
      return 'booked'
    })
    const report = await crashEverywhere(trip, null, { providers: [rooms] })
    assert.equal(report.usualEnd, 'completed')
    assert.equal(report.effect('book~undo').usual, 1)
    assert.equal(rooms.happened, 2)
  })

  test('a run goes on behind a scope that was undone, whatever crashes', async () => {
    const trip = workflow('trip', async (ctx, _: null) => {
      await ctx
        .scope(async inner => {
          await inner.step('book', attempt => attempt.key, { compensate: (_room, attempt) => attempt.key })
          throw Failure.permanent('no flight')
        })
        .catch(() => undefined)
      const first = await ctx.step('apologise', attempt => attempt.key)
      const [a, b] = await ctx.all([ctx.step('voucher', attempt => attempt.key), ctx.step('note', attempt => attempt.key)])
      return [first, a, b, ctx.now()]
    })
    const report = await crashEverywhere(trip, null)
    assert.equal(report.usualEnd, 'completed')
    assert.ok(report.crashes > 20, report.toString())
  })

  test('a failed run undoes its effects, last first', async () => {
    const undone: string[] = []
    const flow = workflow('flow', async (ctx, _: null) => {
      for (const name of ['one', 'two']) {
        await ctx.step(name, attempt => attempt.key, { compensate: (_output, attempt) => undone.push(attempt.key) })
      }
      throw Failure.permanent('sold out')
    })
    await crashReport(flow, null, { expect: 'failed', providers: [{ reset: () => (undone.length = 0) }] })
    undone.length = 0
    await crashEverywhere(flow, null, { expect: 'failed', providers: [{ reset: () => (undone.length = 0) }] })
    assert.deepEqual(undone.slice(0, 2), ['run_1:two~undo', 'run_1:one~undo'])
  })

  test('promises, signals, timers, races, children and parallel steps survive', async () => {
    const ship = workflow('ship', (ctx, order: string) => ctx.step('pack', attempt => `${order} ${attempt.key}`))
    const order = workflow('order', async (ctx, id: string) => {
      const approval = ctx.promise<string>('approval', { key: `order:${id}` })
      await ctx.step('ask', attempt => `${approval.id} ${attempt.key}`)
      const first = await ctx.select({
        approved: async (inner: Ctx) => {
          const by = await approval
          await inner.step('note', attempt => attempt.key)
          return by
        },
        late: ctx.sleep('3d'),
      })
      const [a, b] = await ctx.all([ctx.step('left', attempt => attempt.key), ctx.step('right', attempt => attempt.key)])
      const parcel = await ctx.child(ship, id)
      const at = ctx.now()
      await ctx.sleepUntil(new Date(at.getTime() + 1000))
      await ctx.afterEffect('mail', { parcel, random: ctx.random() })
      return { which: first.which, a, b, parcel, go: await ctx.signal('go') }
    })
    const report = await crashEverywhere(order, '7', {
      also: [ship],
      outside: world => {
        if (world.waitsFor().some(step => step.startsWith('approval'))) world.resolve({ key: 'order:7' }, 'ada')
        if (world.waitsFor().some(step => step.startsWith('go'))) world.signal('go', true)
      },
    })
    assert.equal(report.usualEnd, 'completed')
    assert.ok(report.crashes > 40, report.toString())
  })

  test('a probe that cannot tell leaves a doubt', async () => {
    const wire = workflow('wire', (ctx, _: null) => ctx.step('wire', () => 1, { claimed: true, probe: () => cannotTell }))
    const report = await crashEverywhere(wire, null)
    assert.ok(report.effect('wire').canBeInDoubt)
  })
})
