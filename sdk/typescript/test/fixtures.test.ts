import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { type AttemptOutcome, Machine, type RunMessage, type Turn, codeOf } from '../src/core/index.js'
import { type Numbers, RawJson, parseEnvelope, parseJson, stringifyJson } from '../src/json/index.js'
import type { ActivateMessage, AttemptKind } from '../src/core/messages.js'
import { workflow } from '../src/workflow.js'
import { type Statement, runScript } from './script.js'

const FOLDER = new URL('../../../fixtures/', import.meta.url)

interface Fixture {
  name: string
  input: RawJson
  script: RawJson
  turns: { in: Given | Given[]; items: RawJson; begin?: number[]; abort?: number[]; forgotten?: boolean }[]
  now?: number
  random?: number
  numbers?: Numbers
}

type Given = { type: string; op: number; attempt: number; activation?: string } & Record<string, unknown>

const RAW = new Set(['input', 'script', 'items', 'output', 'value'])

for (const file of readdirSync(FOLDER).filter(name => name.endsWith('.json'))) {
  const fixture = parseEnvelope(readFileSync(new URL(file, FOLDER), 'utf8'), RAW) as Fixture
  test(`fixture ${fixture.name}`, () => runFixture(fixture))
}

test('there are fixtures', () => {
  assert.ok(readdirSync(FOLDER).length > 25)
})

async function runFixture(fixture: Fixture): Promise<void> {
  const numbers = fixture.numbers ?? 'bigint'
  const script = parseJson(fixture.script.text, numbers) as Statement[]
  const flow = workflow('fixture', (ctx, input) => runScript(ctx, script, input), { numbers })
  const kinds = new Map<number, AttemptKind>()
  let machine: Machine | undefined
  for (const [index, turn] of fixture.turns.entries()) {
    const got: Turn = { items: [], begin: [], abort: [], forgotten: false }
    for (const given of [turn.in].flat()) {
      if (given.type === 'attempt') kinds.set(given.op, given.do as AttemptKind)
      if (given.type === 'activate') {
        const message = { run: 'run_1', activation: 'a1', input: fixture.input, ...given } as unknown as ActivateMessage
        const environment = { now: () => fixture.now ?? 0, random: () => fixture.random ?? 0, numbers }
        machine = new Machine(message, await codeOf(flow, fixture.input.text), environment)
      }
      assert.ok(machine, 'a fixture begins with activate')
      add(got, await told(machine, given, kinds))
    }
    const where = `${fixture.name}, turn ${index + 1}`
    const expected = parseJson(turn.items.text, 'exact') as Record<string, unknown>[]
    assert.deepEqual(comparable(got, expected), expected, where)
    assert.deepEqual(
      got.begin.map(begin => begin.op),
      turn.begin ?? [],
      `${where}: attempts that begin`,
    )
    assert.deepEqual(got.abort, turn.abort ?? [], `${where}: attempts that are stopped`)
    assert.equal(got.forgotten, turn.forgotten ?? false, `${where}: forgotten`)
  }
}

function told(machine: Machine, given: Given, kinds: Map<number, AttemptKind>): Promise<Turn> | Turn {
  const { type, ...rest } = given
  switch (type) {
    case 'activate':
      return machine.start()
    case 'evict':
      return machine.evict()
    case 'ended': {
      const { op, attempt, ...outcome } = rest
      return machine.attemptEnded({ op, attempt, do: kinds.get(op) ?? 'effect', outcome: outcome as unknown as AttemptOutcome })
    }
    default:
      return machine.deliver({ run: 'run_1', activation: 'a1', ...given } as unknown as RunMessage)
  }
}

function add(sum: Turn, turn: Turn): void {
  sum.items.push(...turn.items)
  sum.begin.push(...turn.begin)
  sum.abort.push(...turn.abort)
  sum.forgotten ||= turn.forgotten
}

/** Items as they are sent. A violation that contains the expected words is replaced by them. */
function comparable(turn: Turn, expected: Record<string, unknown>[]): unknown[] {
  const sent = parseJson(stringifyJson(turn.items), 'exact') as Record<string, unknown>[]
  return sent.map((item, index) => {
    const words = expected[index]?.violation
    const text = item.violation
    if (!Array.isArray(words) || typeof text !== 'string') return item
    return words.every(word => text.includes(String(word))) ? { violation: words as unknown[] } : item
  })
}
