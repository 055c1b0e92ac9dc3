import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { type TestContext, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { AttemptOutcome, Item } from '../src/core/index.js'
import { codeOf } from '../src/core/index.js'
import { type Ctx, task, workflow } from '../src/index.js'
import { type Numbers, type RawJson, parseEnvelope, parseJson, stringifyJson } from '../src/json/index.js'
import { Conversation, type PushedMessage, type PushedTurn } from '../src/push/conversation.js'
import { pushHandler } from '../src/push/index.js'
import { Program, defer, needsProgram } from './program.js'
import { type Statement, runScript } from './script.js'

const FOLDER = new URL('../../../fixtures/', import.meta.url)
const SECRET = 'whsec_' + Buffer.from('k'.repeat(32)).toString('base64')
const NOW = Date.parse('2026-11-19T05:00:00.000Z')

interface Given extends Record<string, unknown> {
  type: string
  op: number
  attempt: number
}

interface Fixture {
  name: string
  input: RawJson
  script: RawJson
  turns: { in: Given | Given[]; items: RawJson }[]
  now?: number
  random?: number
  numbers?: Numbers
}

const IN_WORKER = new Set(['evict'])
const RAW = new Set(['input', 'script', 'output', 'value', 'items', 'return', 'continueAsNew', 'body'])

/** Turns of a fixture as requests: an attempt, and its end, are one. */
function requestsOf(fixture: Fixture): { messages: PushedMessage[]; ends: Given[]; items: Item[] }[] {
  const requests: { messages: PushedMessage[]; ends: Given[]; items: Item[] }[] = []
  for (const turn of fixture.turns) {
    const given = [turn.in].flat()
    const ends = given.filter(one => one.type === 'ended')
    const items = parseEnvelope(turn.items.text, RAW) as Item[]
    const about = { run: 'run_1', activation: 'a1' }
    const messages = given.filter(one => one.type !== 'ended').map(one => (one.type === 'activate' ? { ...about, input: fixture.input, ...one } : { ...about, ...one })) as unknown as PushedMessage[]
    const last = requests.at(-1)
    const isSame = last !== undefined && ends.length > 0 && messages.length === 0
    const continues = last !== undefined && last.messages.some(message => message.type === 'attempt') && last.items.length === 0 && last.ends.length === 0 && messages.every(message => message.type === 'attempt')
    if (isSame || continues) {
      last.messages.push(...messages)
      last.ends.push(...ends)
      last.items.push(...items)
    } else requests.push({ messages, ends, items })
  }
  return requests
}

describe('a function that forgets everything between two requests', () => {
  for (const file of readdirSync(FOLDER).filter(name => name.endsWith('.json'))) {
    const fixture = parseEnvelope(readFileSync(new URL(file, FOLDER), 'utf8'), RAW) as Fixture
    const messages = fixture.turns.flatMap(turn => [turn.in].flat())
    const activations = messages.filter(message => message.type === 'activate').length
    const attemptsEndLater = ['abort', 'reload', 'race_loser_stops', 'stop', 'parallel_last_alone'].includes(fixture.name)
    if (activations > 1 || attemptsEndLater || messages.some(message => IN_WORKER.has(message.type))) continue
    test(`answers fixture ${fixture.name}`, () => answersFixture(fixture))
  }

  test('plays values again as it made them', async () => {
    const flow = workflow('values', async ctx => [ctx.now().getTime(), ctx.random(), await ctx.step('a', () => 1)])
    const code = await codeOf(flow, 'null')
    let time = 5
    const environment = { now: () => time++, random: () => (time += 1) / 1000 }
    const activate = { type: 'activate', run: 'r', activation: 'a1', workflow: 'values', version: 1, fence: 1, log: [] } as unknown as PushedMessage
    const run = () => Promise.resolve({ output: new (class { text = '7' })() } as unknown as AttemptOutcome)
    const nothing = () => undefined
    const first = await Conversation.carryOn([], [activate], code, environment, run, nothing)
    const turns = [{ messages: [activate], items: parseEnvelope(stringifyJson(first), RAW) as Item[] }]
    const attempt = { type: 'attempt', run: 'r', activation: 'a1', op: 3, id: 'a', do: 'effect', attempt: 1, key: 'r:a', fence: 1 } as PushedMessage
    const second = await Conversation.carryOn(turns, [attempt], code, environment, begin => begin.run({} as never), nothing)
    const [outcome, took, end] = second as unknown as { return?: RawJson }[]
    assert.ok(outcome && took && end?.return)
    assert.deepEqual(parseJson(end.return.text), [5, 0.007, 1])
  })

  test('says so if the code does something else', async () => {
    const turns = [{ messages: [activateOf('x')], items: [{ op: 1, do: 'step', name: 'old' }] }] as unknown as PushedTurn[]
    const flow = workflow('x', ctx => ctx.step('new', () => 1))
    const items = await Conversation.carryOn(turns, [], await codeOf(flow, 'null'), { now: () => 0, random: () => 0 }, never, () => undefined)
    assert.match((items[0] as { violation: string }).violation, /old.*new/)
  })
})

const never = () => new Promise<AttemptOutcome>(() => undefined)

function activateOf(name: string): PushedMessage {
  return { type: 'activate', run: 'r', activation: 'a1', workflow: name, version: 1, fence: 1, log: [] } as unknown as PushedMessage
}

async function answersFixture(fixture: Fixture): Promise<void> {
  const numbers = fixture.numbers ?? 'bigint'
  const script = parseJson(fixture.script.text, numbers) as Statement[]
  const flow = workflow('fixture', (ctx: Ctx, input) => runScript(ctx, script, input), { numbers })
  const environment = { now: () => fixture.now ?? 0, random: () => fixture.random ?? 0, numbers }
  const turns: PushedTurn[] = []
  for (const { messages, ends, items } of requestsOf(fixture)) {
    // The attempts end in the order of the fixture.
    const order = ends.map(end => end.op)
    const run = async (begin: { op: number }): Promise<AttemptOutcome> => {
      for (let turn = order.indexOf(begin.op); turn > 0; turn--) await new Promise(resolve => setImmediate(resolve))
      const { output, failure, answer } = ends.find(end => end.op === begin.op) ?? assert.fail()
      const given = Object.entries({ output, failure, answer }).filter(([, value]) => value !== undefined)
      return Object.fromEntries(given) as unknown as AttemptOutcome
    }
    const code = await codeOf(flow, fixture.input.text)
    const got = await Conversation.carryOn(turns, messages, code, environment, run, () => undefined)
    const plain = parseJson(stringifyJson(got), 'exact') as { violation?: unknown }[]
    const expected = parseJson(stringifyJson(items), 'exact') as { violation?: unknown }[]
    if (Array.isArray(expected[0]?.violation)) {
      assert.equal(typeof plain[0]?.violation, 'string')
      return
    }
    assert.deepEqual(plain, expected, fixture.name)
    turns.push({ messages, items: parseEnvelope(stringifyJson(got), RAW) as Item[] })
  }
}

function signed(body: string, { id = 'msg_1', at = NOW, secret = SECRET } = {}): Request {
  const timestamp = String(Math.floor(at / 1000))
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,AAAA v1,${signature}` }
  return new Request('http://function/', { method: 'POST', headers, body })
}

function work(changes: object = {}): string {
  const message = { type: 'task', call: 'c1', name: 'double', input: 4, key: 'k', attempt: 1, fence: 1 }
  return JSON.stringify({ holdFor: '10s', notAfter: new Date(NOW + 10_000).toISOString(), turns: [], messages: [message], ...changes })
}

describe('requests', () => {
  let calls = 0
  const double = task('double', (input: number) => {
    calls++
    return input * 2
  })
  const handler = () => pushHandler({ secret: [SECRET], tasks: [double], now: () => NOW })

  test('are carried out if they are the server’s', async () => {
    const answer = await handler()(signed(work()))
    assert.equal(answer.status, 200)
    assert.deepEqual(await answer.json(), { results: [{ call: 'c1', output: 8 }] })
  })

  test('are refused, and nothing runs, if they are not, or come twice, or too late', async () => {
    calls = 0
    const handle = handler()
    const other = 'whsec_' + Buffer.from('o'.repeat(32)).toString('base64')
    const changed = new Request(signed(work()), { body: work().replace('4', '5') })
    assert.equal((await handle(signed(work(), { secret: other }))).status, 401)
    assert.equal((await handle(changed)).status, 401)
    assert.equal((await handle(new Request('http://function/', { method: 'POST', body: work() }))).status, 401)
    assert.equal((await handle(new Request('http://function/'))).status, 405)
    for (const at of [NOW - 301_000, NOW + 301_000]) assert.equal((await handle(signed(work(), { at }))).status, 401)
    const late = work({ notAfter: new Date(NOW).toISOString() })
    assert.equal((await handle(signed(late))).status, 410)
    const unknown = work({ messages: [{ type: 'task', call: 'c', name: 'nobody', key: 'k', attempt: 1, fence: 1 }] })
    assert.equal((await handle(signed(unknown))).status, 404)
    assert.equal(calls, 0)
    // None of them used the id up.
    assert.equal((await handle(signed(work()))).status, 200)
    assert.equal((await handle(signed(work()))).status, 409)
    assert.equal(calls, 1)
  })
})

/** A function in a process of its own, which the server pushes to. */
class FunctionProcess {
  readonly said: string[] = []
  private readonly child: ChildProcess
  private readonly listeners = new Set<() => void>()

  constructor(t: TestContext) {
    const script = fileURLToPath(new URL('function-process.js', import.meta.url))
    this.child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit'] })
    defer(t, () => this.child.kill('SIGKILL'))
    if (this.child.stdout) {
      createInterface(this.child.stdout).on('line', line => {
        this.said.push(line)
        for (const listener of this.listeners) listener()
      })
    }
  }

  async says(start: string): Promise<string> {
    return new Promise(resolve => {
      const look = () => {
        const found = this.said.find(line => line.startsWith(start))
        if (found === undefined) return
        this.listeners.delete(look)
        resolve(found)
      }
      this.listeners.add(look)
      look()
    })
  }
}

describe('a function in its own process', needsProgram, () => {
  test('runs workflows, tasks and actions that the server sends it', { timeout: 120_000 }, async t => {
    const program = await Program.start(t)
    const hapax = program.client()
    const served = new FunctionProcess(t)
    const url = `http://127.0.0.1:${(await served.says('ready ')).split(' ')[1] ?? ''}`
    const api = async (path: string, body: unknown) => {
      const headers = { authorization: `Bearer ${program.ready.apiKey}`, 'content-type': 'application/json' }
      const answer = await fetch(program.ready.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
      assert.ok(answer.ok, `${path}: ${await answer.clone().text()}`)
      return (await answer.json()) as Record<string, unknown>
    }
    const names = { workflows: [{ name: 'pushed-order' }], tasks: ['pushed-mail'], actions: ['PushedClose'] }
    const made = await api('/api/v1/push-workers', { name: 'lambda', url: `${url}/`, timeout: '5s', ...names })
    await fetch(`${url}/secret`, { method: 'POST', body: String(made.secret) })

    const { run } = await hapax.start('pushed-order', { amount: 5 })
    await served.says('charge')
    await run.signal('approved', { by: 'ada' })
    assert.deepEqual(await run.result({ timeout: '30s' }), { charge: 'ch_5', a: 'l', b: 'r', by: 'ada', isSameTime: true })
    assert.equal(served.said.filter(line => line.startsWith('charge')).length, 1, 'played again, the effect is not')

    const step = { name: 'send', type: 'task', task: 'pushed-mail', input: { to: '{{ input.to }}' } }
    await api('/api/v1/workflow-definitions', { name: 'mails', version: 1, steps: [step], output: '{{ steps.send.output }}' })
    const mails = await hapax.start('mails', { to: 'ada@example.com' })
    assert.equal(((await mails.run.result({ timeout: '30s' })) as { to: string }).to, 'ada@example.com')
  })

  test('that does not answer leaves a claimed effect in doubt', { timeout: 120_000 }, async t => {
    const program = await Program.start(t)
    const hapax = program.client()
    const served = new FunctionProcess(t)
    const url = `http://127.0.0.1:${(await served.says('ready ')).split(' ')[1] ?? ''}`
    const headers = { authorization: `Bearer ${program.ready.apiKey}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ name: 'slow', url, timeout: '2s', workflows: [{ name: 'pushed-order' }] })
    const made = (await (await fetch(`${program.ready.url}/api/v1/push-workers`, { method: 'POST', headers, body })).json()) as { secret: string }
    await fetch(`${url}/secret`, { method: 'POST', body: made.secret })
    await hapax.start('pushed-order', { amount: 1, stall: true })
    await served.says('wire')
    for (;;) {
      const { items } = (await (await fetch(`${program.ready.url}/api/v1/doubts`, { headers })).json()) as { items: { stepId: string }[] }
      if (items.length > 0) {
        assert.equal(items[0]?.stepId, 'wire')
        break
      }
      await new Promise(resolve => setTimeout(resolve, 100))
    }
    assert.equal(served.said.filter(line => line === 'wire').length, 1)
  })
})
