import type { Attempt } from '../core/attempt.js'
import { type Begin, Machine } from '../core/machine.js'
import type { ActivateMessage, AttemptOutcome, Item, ServerMessage } from '../core/messages.js'
import { Failure, toWire } from '../failure.js'
import { RawJson, stringifyJson } from '../json/index.js'
import { type AnyWorkflow, codeOf } from '../workflow.js'
import { MemoryEngine } from './memory-engine.js'
import type { MemoryRun } from './memory-run.js'
import type { EffectClass } from './report.js'

/** Where a fault strikes. */
export type Point = 'before_message' | 'before_effect' | 'after_effect' | 'before_commit' | 'after_commit'
/** A crash, or a worker that was taken for dead and comes back. */
export type Fault = 'crash' | 'zombie'

/** A place where a fault can be: the `nth` time that this point is reached. */
export interface Place {
  readonly point: Point
  readonly step: string | undefined
  readonly nth: number
}

/** What the outside world can do while the run waits. */
export interface World {
  readonly runId: string
  /** Sends a signal to the run. */
  signal(name: string, value?: unknown): void
  /** Settles a promise by its id or its key. */
  resolve(ref: { id: string } | { key: string }, value?: unknown): void
  /** Rejects a promise by id or by key. */
  reject(ref: { id: string } | { key: string }, failure: { message: string; code?: string }): void
  /** Asks the run to cancel. */
  cancel(): void
  /** Open steps. */
  waitsFor(): string[]
}

export interface ExecutionPlan {
  workflow: AnyWorkflow
  also: readonly AnyWorkflow[]
  input: RawJson
  outside: ((world: World) => void | Promise<void>) | undefined
  providers: readonly { reset?(): void }[]
}

/** How a run ended. */
export type End = 'completed' | 'failed' | 'cancelled' | 'waiting' | 'paused'

/** What one execution showed. */
export interface Execution {
  places: Place[]
  hasFaulted: boolean
  /** Times that each effect ran. */
  entered: Map<string, number>
  enteredBefore: number
  keysRead: Set<string>
  end: End
  steps: Map<string, { class: EffectClass; isDone: boolean }>
  inDoubt: Set<string>
  violation: string | undefined
  /** Known cause of the end, as the end of a sentence. */
  why: string
}

/** More rounds than a workflow should take. */
const MAX_ROUNDS = 20_000

class Crash extends Error {}

/** Runs the workflow once, with one fault at most. */
export async function execute(plan: ExecutionPlan, fault?: { place: Place; kind: Fault }): Promise<Execution> {
  for (const provider of plan.providers) provider.reset?.()
  const trace = new Trace(fault)
  const engine = new MemoryEngine()
  const { name, version } = plan.workflow
  const run = engine.start(name, version, plan.input)
  const first = new TestWorker('first', engine, plan, trace)
  try {
    await settle(plan, engine, run, first)
  } catch (error) {
    if (!(error instanceof Crash)) throw error
    engine.sessionOver('first')
    const second = new TestWorker('second', engine, plan, trace)
    await settle(plan, engine, run, second)
    // The worker that was taken for dead comes back.
    first.handInStashed()
    await settle(plan, engine, run, second)
  }
  return collect(engine, run, trace)
}

/** Lets a worker work until nothing happens any more. */
async function settle(plan: ExecutionPlan, engine: MemoryEngine, run: MemoryRun, worker: TestWorker): Promise<void> {
  let wasAsked = false
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const messages = engine.take(worker.session)
    if (messages.length > 0) {
      await worker.handle(messages)
      wasAsked = false
    } else if (run.status !== 'OPEN') {
      return
    } else if (!wasAsked && plan.outside) {
      // The world acts before time passes.
      wasAsked = true
      await callOutside(plan.outside, engine, run)
    } else if (engine.advance()) {
      wasAsked = false
    } else {
      return
    }
  }
  throw new Error(`the workflow did not come to an end in ${MAX_ROUNDS} rounds; does it loop without end?`)
}

/** Lets the outside world act. */
async function callOutside(outside: NonNullable<ExecutionPlan['outside']>, engine: MemoryEngine, run: MemoryRun): Promise<void> {
  const name = (ref: { id: string } | { key: string }) => ('id' in ref ? ref.id : `key:${ref.key}`)
  const encode = (value: unknown) => new RawJson(stringifyJson(value ?? null))
  await outside({
    runId: run.id,
    signal: (signal, value) => engine.signal(run.id, signal, encode(value)),
    resolve: (ref, value) => engine.settle(name(ref), { output: encode(value) }),
    reject: (ref, failure) => engine.settle(name(ref), { failure: { class: 'permanent', ...failure } }),
    cancel: () => engine.cancel(run.id),
    waitsFor: () => engine.waitsFor(run),
  })
}

/** What happened, and where the fault is. */
class Trace {
  readonly places: Place[] = []
  readonly entered = new Map<string, number>()
  readonly keysRead = new Set<string>()
  hasFaulted = false
  enteredBefore = 0
  private readonly counts = new Map<string, number>()

  constructor(private readonly fault: { place: Place; kind: Fault } | undefined) {}

  /** A point is reached. Tells the fault that is to be here. */
  reached(point: Point, step?: string): Fault | undefined {
    const key = `${point} ${step ?? ''}`
    const nth = (this.counts.get(key) ?? 0) + 1
    this.counts.set(key, nth)
    const at = this.fault?.place
    const isHere = !this.hasFaulted && at?.point === point && at.step === step && at.nth === nth
    if (isHere) {
      this.hasFaulted = true
      this.enteredBefore = [...this.entered.values()].reduce((sum, count) => sum + count, 0)
      return this.fault?.kind
    }
    this.places.push({ point, step, nth })
    return undefined
  }

  enter(step: string): void {
    this.entered.set(step, (this.entered.get(step) ?? 0) + 1)
  }
}

interface EndedAttempt {
  machine: Machine
  begin: Begin
  outcome: AttemptOutcome
}

/** A worker without a network. */
class TestWorker {
  private readonly machines = new Map<string, Machine>()
  private stashed: (() => void)[] = []

  constructor(
    readonly session: string,
    private readonly engine: MemoryEngine,
    private readonly plan: ExecutionPlan,
    private readonly trace: Trace,
  ) {}

  /** Handles messages in their order. All effects run before the first outcome is handed in. */
  async handle(messages: readonly ServerMessage[]): Promise<void> {
    const ended: EndedAttempt[] = []
    for (const message of messages) {
      if ('call' in message) continue
      const isAttempt = message.type === 'attempt' && message.do !== 'probe'
      const step = isAttempt ? message.id : undefined
      this.check(isAttempt ? 'before_effect' : 'before_message', step)
      const machine = message.type === 'activate' ? await this.activate(message) : this.machines.get(message.run)
      if (machine?.activation !== message.activation) continue
      const turn = message.type === 'activate' ? await machine.start() : await machine.deliver(message)
      for (const begin of turn.begin) ended.push({ machine, begin, outcome: await this.attempt(begin) })
      if (isAttempt) this.afterEffect(step, ended)
      this.commit(machine, turn.items)
    }
    for (const { machine, begin, outcome } of ended) {
      const { op, do: kind, message } = begin
      const turn = await machine.attemptEnded({ op, attempt: message.attempt, do: kind, outcome })
      this.commit(machine, turn.items)
    }
  }

  /** Hands in what the worker could not hand in when it was taken for dead. */
  handInStashed(): void {
    for (const handIn of this.stashed) handIn()
    this.stashed = []
  }

  private async activate(message: ActivateMessage): Promise<Machine | undefined> {
    const workflows = [this.plan.workflow, ...this.plan.also]
    const isIt = (workflow: AnyWorkflow) => workflow.name === message.workflow && (message.version === 0 || workflow.version === message.version)
    const workflow = workflows.find(isIt)
    if (!workflow) throw new Error(`there is no workflow ${message.workflow}: name it in { also: [..] }`)
    const code = await codeOf(workflow, message.input?.text ?? 'null')
    const environment = { now: () => this.engine.now, random: () => Math.random(), numbers: workflow.numbers }
    const machine = new Machine(message, code, environment)
    this.machines.set(message.run, machine)
    return machine
  }

  private async attempt({ message, do: kind, run }: Begin): Promise<AttemptOutcome> {
    const step = message.id ?? String(message.op)
    if (kind !== 'probe') this.trace.enter(step)
    const { trace } = this
    const attempt: Attempt = {
      get key() {
        trace.keysRead.add(step)
        return message.key
      },
      attempt: message.attempt,
      fence: message.fence,
      signal: new AbortController().signal,
      traceparent: undefined,
      ensureStillHeld: () => undefined,
    }
    const outcome = await run(attempt)
    const isMissing = 'failure' in outcome && outcome.failure.message === ''
    return isMissing ? { failure: toWire(Failure.unknown('an error without a message')) } : outcome
  }

  private check(point: Point, step?: string): void {
    if (this.trace.reached(point, step)) throw new Crash()
  }

  /** The effect ran. A zombie keeps what it has, and hands it in when another has taken over. */
  private afterEffect(step: string | undefined, ended: readonly EndedAttempt[]): void {
    const fault = this.trace.reached('after_effect', step)
    if (fault === 'zombie') {
      this.stashed = ended.map(({ machine, begin, outcome }) => () => {
        const item: Item = { outcome: begin.op, attempt: begin.message.attempt, ...outcome }
        this.engine.commit(this.session, machine.run, machine.activation, [item])
      })
    }
    if (fault) throw new Crash()
  }

  private commit(machine: Machine, items: readonly Item[]): void {
    if (items.length === 0) return
    const send = () => this.engine.commit(this.session, machine.run, machine.activation, items)
    const fault = this.trace.reached('before_commit')
    if (fault === 'zombie') this.stashed = [send]
    if (fault) throw new Crash()
    send()
    this.check('after_commit')
  }
}

function collect(engine: MemoryEngine, run: MemoryRun, trace: Trace): Execution {
  const steps: Execution['steps'] = new Map()
  const inDoubt = new Set<string>()
  for (const step of [...engine.runs.values()].flatMap(one => [...one.steps.values()])) {
    if (step.item.do !== 'step') continue
    const isClaimed = (step.item).claimed === true
    steps.set(step.id, { class: isClaimed ? 'claimed' : 'idempotent', isDone: step.status === 'COMPLETED' })
    if (step.status === 'IN_DOUBT') inDoubt.add(step.id)
    if (step.undo?.status === 'IN_DOUBT') inDoubt.add(`${step.id}~undo`)
  }
  const ends: Record<MemoryRun['status'], End> = {
    OPEN: 'waiting',
    COMPLETED: 'completed',
    FAILED: 'failed',
    CANCELLED: 'cancelled',
    PAUSED: 'paused',
  }
  const waits = engine.waitsFor(run)
  const why = run.failure ? `: ${run.failure.message}` : run.status === 'OPEN' && waits.length > 0 ? `: it waits for ${waits.join(', ')}` : ''
  const violation = [...engine.runs.values()].find(one => one.violation !== undefined)?.violation
  const { places, hasFaulted, entered, enteredBefore, keysRead } = trace
  return { places, hasFaulted, entered, enteredBefore, keysRead, end: ends[run.status], steps, inDoubt, violation, why }
}
