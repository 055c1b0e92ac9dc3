import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { noAnswer } from '../src/client/problem.js'
import type { Answer, SendOptions, Transport } from '../src/client/transport.js'
import { Hold, HoldClock } from '../src/worker/clock.js'
import { Session } from '../src/worker/session.js'

/** Two clocks that are moved by hand. */
function clocks() {
  const at = { wall: 1_000_000, steady: 5 }
  return { at, clock: new HoldClock(() => at.wall, () => at.steady) }
}

describe('the clock of holds', () => {
  test('counts time that the machine was suspended, when the steady clock stands still', () => {
    const { at, clock } = clocks()
    at.wall += 60_000
    at.steady += 10
    assert.equal(clock.now(), 60_000)
  })

  test('never goes back, and counts on, when the wall clock is set back', () => {
    const { at, clock } = clocks()
    at.wall -= 3_600_000
    at.steady += 100
    assert.equal(clock.now(), 100)
    at.wall += 50
    at.steady += 50
    assert.equal(clock.now(), 150)
  })
})

describe('a hold', () => {
  const never = () => assert.fail('the hold has not ended')

  test('ends when its span has passed since the request left', () => {
    const { at, clock } = clocks()
    const hold = new Hold(clock, never)
    assert.equal(hold.isHeld, false)
    hold.extend(clock.now(), 1000)
    at.wall += 999
    assert.equal(hold.isHeld, true)
    at.wall += 1
    assert.equal(hold.isHeld, false)
    hold.release()
  })

  test('is never shortened by a later answer', () => {
    const { at, clock } = clocks()
    const hold = new Hold(clock, never)
    hold.extend(clock.now(), 10_000)
    hold.extend(clock.now(), 1000)
    at.wall += 9000
    assert.equal(hold.isHeld, true)
    hold.release()
  })

  test('lets those go on that waited for it', () => {
    const { at, clock } = clocks()
    const hold = new Hold(clock, never)
    let began = 0
    hold.whenHeld(() => began++)
    hold.extend(clock.now() - 1000, 500)
    assert.equal(began, 0)
    at.wall += 1
    hold.extend(clock.now(), 1000)
    assert.equal(began, 1)
    hold.release()
  })
})

test('a request that is sent again has the same number, and its hold counts from the first', async () => {
  const { at, clock } = clocks()
  const hold = new Hold(clock, () => undefined)
  const bodies: string[] = []
  const answer = (text: object): Answer => ({ status: 200, text: JSON.stringify(text) })
  const transport = {
    url: 'http://server',
    send: (_method: string, path: string, { body = '' }: SendOptions): Promise<Answer> => {
      if (path.endsWith('worker-sessions')) return Promise.resolve(answer({ sessionId: 'wks_1', leaseFor: '30s', pollFor: '5s' }))
      bodies.push(body)
      at.wall += 10_000
      return bodies.length === 1 ? Promise.reject(noAnswer('http://server', new Error('cut'))) : Promise.resolve(answer({ holdFor: '24s', messages: [] }))
    },
  } as unknown as Transport
  const offer = { name: 'w', sdk: 'typescript', sdkVersion: '0', concurrency: 1, workflows: [], tasks: [], actions: [] }
  const session = await Session.open(transport, offer, hold, new AbortController().signal)
  await session.poll(1)
  assert.equal(bodies.length, 2)
  assert.equal(bodies[0], bodies[1])
  assert.match(bodies[0] ?? '', /"sequence":1\b/)
  assert.equal(hold.left, 4000)
  hold.release()
})
