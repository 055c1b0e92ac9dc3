import { parseDuration } from '../duration.js'
import type { AttemptOutcome, Item, LogRecord, OperationItem, ServerMessage } from '../core/messages.js'
import { recordedKind } from '../core/replay-log.js'
import type { WireFailure } from '../failure.js'
import { NULL, RawJson } from '../json/index.js'
import { type Activation, hasOutcome, isOver, type MemoryRun, nameOf, type StepItem, type StoredStep } from './memory-run.js'

/** Attempts of a step that says nothing about retries. */
const DEFAULT_ATTEMPTS = 5
/** Probes before people are asked. */
const MAX_PROBES = 3
const FIRST_WAIT = 100
const LONGEST_WAIT = 60_000
const DEFAULT_SETTLE = 35_000
const CONFIRM_AFTER = 2_000

/**
 * The server's part of the protocol, in memory, on a clock that is moved by hand. It decides about retries, doubts, probes,
 * compensation and order as the server does, for tests. It stores nothing.
 */
export class MemoryEngine {
  now = Date.UTC(2026, 0, 1)
  readonly runs = new Map<string, MemoryRun>()
  /** Messages of after-effects. */
  readonly sent: { id: string; target: string; body: RawJson }[] = []
  /** Outcomes that came when their attempt no longer counted. */
  readonly late: { run: string; step: string }[] = []
  private readonly settled = new Map<string, { output: RawJson } | { failure: WireFailure }>()

  start(workflow: string, version: number, input: RawJson, parent?: { run: string; step: string }): MemoryRun {
    const run: MemoryRun = {
      id: `run_${this.runs.size + 1}`,
      workflow,
      version,
      input,
      generation: 0,
      fence: 0,
      status: 'OPEN',
      steps: new Map(),
      taken: 0,
      signals: [],
      activation: undefined,
      activations: 0,
      isDue: true,
      ...(parent ? { parent } : {}),
    }
    this.runs.set(run.id, run)
    return run
  }

  // Calls of the world.

  signal(run: string, name: string, value: RawJson): void {
    this.runs.get(run)?.signals.push({ name, value })
  }

  /** Settles a promise by its id, or by `key:` and its key. The first settlement counts. */
  settle(ref: string, outcome: { output: RawJson } | { failure: WireFailure }): void {
    if (!this.settled.has(ref)) this.settled.set(ref, outcome)
  }

  cancel(run: string): void {
    const found = this.runs.get(run)
    if (found?.status !== 'OPEN') return
    found.asked = 'cancel'
    found.isDue = true
    if (found.activation) this.send(found, found.activation, { type: 'stop', reason: 'cancel' })
  }

  // Calls of a worker.

  /** What a session is told now. */
  take(session: string): ServerMessage[] {
    for (const run of this.runs.values()) this.progress(run, session)
    const messages: ServerMessage[] = []
    for (const { activation } of this.runs.values()) {
      if (activation?.session !== session) continue
      messages.push(...activation.outbox)
      activation.outbox = []
    }
    return messages
  }

  /** Takes the items of a run. Those of an activation that is over change nothing. */
  commit(session: string, runId: string, activationId: string, items: readonly Item[]): void {
    const run = this.runs.get(runId)
    if (!run) return
    const { activation } = run
    if (activation?.id !== activationId || activation.session !== session) {
      this.keepAsEvidence(run, items)
      return
    }
    activation.hasAnswered = true
    for (const item of items) this.carryOut(run, activation, item)
  }

  /** A session is over. Its runs are free; what it had begun is unknown. */
  sessionOver(session: string): void {
    for (const run of this.runs.values()) {
      const { activation } = run
      if (activation?.session !== session) continue
      run.activation = undefined
      run.isDue = true
      for (const [op, { do: what }] of activation.inFlight) {
        const step = activation.operations.get(op)
        if (!step) continue
        if (what === 'undo') {
          if (step.undo) step.undo.dueAt = this.now
        } else if (what === 'effect' && (step.item as StepItem).claimed) this.inDoubt(step)
        else this.tryAgainAt(step, this.now)
      }
    }
  }

  /** Moves the clock to the next timer. False if there is none. */
  advance(): boolean {
    const due = [...this.runs.values()].filter(run => run.status === 'OPEN').flatMap(run => this.timers(run))
    const next = Math.min(...due.filter(at => at > this.now))
    if (!Number.isFinite(next)) return false
    this.now = next
    return true
  }

  /** Open steps of a run, for people. */
  waitsFor(run: MemoryRun): string[] {
    return [...run.steps.values()].filter(step => !isOver(step)).map(step => `${step.id} (${step.status === 'IN_DOUBT' ? 'in doubt' : step.kind})`)
  }

  // Progress.

  private timers(run: MemoryRun): number[] {
    return [...run.steps.values()].flatMap(step => {
      const undo = step.undo?.status === 'PENDING' ? [step.undo.dueAt] : []
      return isOver(step) || step.status === 'IN_DOUBT' || step.dueAt === undefined ? undo : [step.dueAt, ...undo]
    })
  }

  /** Finds out what has happened to a run, and tells its worker. */
  private progress(run: MemoryRun, session: string): void {
    if (run.status !== 'OPEN') return
    for (const step of run.steps.values()) this.arrive(run, step)
    run.activation ??= this.activate(run, session)
    const { activation } = run
    if (!activation?.hasAnswered) return
    this.beginAttempts(run, activation)
    this.tellNext(run, activation)
    this.end(run, activation)
  }

  private activate(run: MemoryRun, session: string): Activation | undefined {
    const hasNews = [...run.steps.values()].some(step => (hasOutcome(step) && step.order === undefined) || (step.dueAt ?? Infinity) <= this.now)
    if (!run.isDue && !hasNews) return undefined
    run.isDue = false
    run.fence++
    const activation: Activation = {
      id: `a${++run.activations}`,
      session,
      ordinals: new Map(),
      operations: new Map(),
      scopes: new Map(),
      inFlight: new Map(),
      told: undefined,
      taken: new Set(),
      hasAnswered: false,
      isStopped: run.asked === 'cancel',
      outbox: [],
    }
    const message = { workflow: run.workflow, version: run.version, fence: run.fence, keyPrefix: this.prefix(run), input: run.input }
    this.send(run, activation, { type: 'activate', ...message, log: this.log(run) })
    return activation
  }

  private log(run: MemoryRun): LogRecord[] {
    const place = (step: StoredStep) => (step.kind === 'value' ? -1 : (step.order ?? Infinity))
    const steps = [...run.steps.values()].sort((one, other) => (place(one) < place(other) ? -1 : place(one) > place(other) ? 1 : 0))
    return steps.map(step => {
      const { id, kind, status, output, failure } = step
      if (hasOutcome(step) && step.order === undefined && kind !== 'value') return { id, kind, status: 'WAITING' }
      return { id, kind, status, ...(output ? { output } : {}), ...(failure ? { failure } : {}) }
    })
  }

  /** Gives a wait its outcome if what it waits for has happened. */
  private arrive(run: MemoryRun, step: StoredStep): void {
    if (step.status !== 'WAITING') return
    const { item } = step
    const found = this.awaited(run, step)
    if (found) this.conclude(step, found)
    else if (step.dueAt !== undefined && step.dueAt <= this.now) {
      if (item.do === 'sleep') this.conclude(step, { output: NULL })
      else this.conclude(step, { failure: { message: `nothing came for ${step.id} in time`, class: 'permanent', code: 'timed_out' } })
    }
  }

  private awaited(run: MemoryRun, step: StoredStep): { output: RawJson } | { failure: WireFailure } | undefined {
    const { item } = step
    switch (item.do) {
      case 'promise':
        return this.settled.get(`${this.prefix(run)}:${step.id}`) ?? this.settled.get(`key:${item.idempotencyKey ?? ''}`)
      case 'awaitPromise':
        return this.settled.get(item.id)
      case 'signal': {
        const at = run.signals.findIndex(signal => signal.name === item.name)
        const signal = at < 0 ? undefined : run.signals.splice(at, 1)[0]
        return signal && { output: signal.value }
      }
      case 'child': {
        const child = this.runs.get(step.child ?? '')
        if (child?.status === 'COMPLETED') return { output: child.output ?? NULL }
        const isLost = child?.status === 'FAILED' || child?.status === 'CANCELLED'
        return isLost ? { failure: child.failure ?? { message: 'the child was cancelled', class: 'permanent' } } : undefined
      }
      default:
        return undefined
    }
  }

  private beginAttempts(run: MemoryRun, activation: Activation): void {
    for (const [op, step] of activation.operations) {
      if (step.status !== 'PENDING' || activation.inFlight.has(op) || (step.dueAt ?? 0) > this.now) continue
      if (activation.isStopped && step.next === 'effect' && step.attempts === 0) continue
      step.status = 'RUNNING'
      if (step.next === 'effect') step.attempts++
      this.attempt(run, activation, op, step, step.next, step.next === 'effect' ? step.attempts : 1)
    }
  }

  private attempt(run: MemoryRun, activation: Activation, op: number, step: StoredStep, what: 'effect' | 'probe' | 'undo', attempt: number): void {
    const id = what === 'undo' ? `${step.id}~undo` : step.id
    const { timeout } = step.item as StepItem
    activation.inFlight.set(op, { do: what, attempt })
    const facts = { op, id, do: what, attempt, key: `${this.prefix(run)}:${id}`, fence: run.fence }
    this.send(run, activation, {
      type: 'attempt',
      ...facts,
      ...(timeout === undefined ? {} : { timeout }),
      ...(what === 'undo' ? { output: step.output ?? NULL } : {}),
    })
  }

  /** Tells the code one outcome. The next follows when it has taken this one. */
  private tellNext(run: MemoryRun, activation: Activation): void {
    if (activation.told !== undefined || activation.end || activation.isStopped) return
    // Behind a scope that failed in a replay, what the code was given before comes again, in its order.
    const untold = [...activation.operations].filter(([op, step]) => hasOutcome(step) && step.kind !== 'value' && !activation.taken.has(op))
    const next = untold.sort(([, one], [, other]) => (one.order ?? Infinity) - (other.order ?? Infinity) || 0)[0]
    if (next) {
      const [op, { output = NULL, failure }] = next
      activation.told = op
      this.send(run, activation, { type: 'resolved', op, ...(failure ? { failure } : { output }) })
      return
    }
    for (const [op, scope] of activation.scopes) {
      if (!scope.failure || scope.isOver) continue
      const undone = this.undo(run, activation, step => this.isWithin(activation, step, op))
      if (undone === 'open') return
      scope.isOver = true
      activation.told = op
      this.send(run, activation, { type: 'resolved', op, failure: scope.failure })
      return
    }
  }

  /** Undoes the effects of these steps, last first. */
  private undo(run: MemoryRun, activation: Activation, which: (step: StoredStep) => boolean): 'done' | 'open' {
    const wanted = [...run.steps.values()].filter(
      step => step.item.do === 'step' && step.item.compensate && step.undo?.status !== 'COMPLETED' && which(step),
    )
    const doubtful = wanted.some(step => step.status === 'IN_DOUBT' || (step.status === 'RUNNING' && step.attempts > 0))
    const done = wanted.filter(step => step.status === 'COMPLETED')
    const last = done.sort((one, other) => (one.order ?? Infinity) - (other.order ?? Infinity)).at(-1)
    if (last === undefined) return doubtful ? 'open' : 'done'
    const op = [...activation.operations].find(([, step]) => step === last)?.[0]
    if (op === undefined || activation.inFlight.has(op) || last.undo?.status === 'IN_DOUBT') return 'open'
    last.undo ??= { status: 'PENDING', attempts: 0, dueAt: this.now }
    if (last.undo.dueAt > this.now) return 'open'
    last.undo.attempts++
    this.attempt(run, activation, op, last, 'undo', last.undo.attempts)
    return 'open'
  }

  private isWithin(activation: Activation, step: StoredStep, scope: number): boolean {
    for (let at = step.item.scope; at !== undefined; at = activation.scopes.get(at)?.parent) if (at === scope) return true
    return false
  }

  private end(run: MemoryRun, activation: Activation): void {
    const { end } = activation
    if (end && 'continueAsNew' in end) {
      Object.assign(run, { input: end.continueAsNew, steps: new Map(), taken: 0, isDue: true, activation: undefined })
      run.generation++
      return
    }
    if (end && 'return' in end) {
      run.output = end.return
      this.close(run, 'COMPLETED')
    } else if (end || activation.isStopped) {
      // Steps that run end first: what they did has to be undone as well.
      const isBusy = [...activation.inFlight.values()].some(({ do: what }) => what !== 'undo')
      if (isBusy || this.undo(run, activation, () => true) === 'open') return
      run.failure = end?.throw ?? { message: 'the run was cancelled', class: 'permanent', code: 'cancelled' }
      this.close(run, end ? 'FAILED' : 'CANCELLED')
    }
  }

  private close(run: MemoryRun, status: 'COMPLETED' | 'FAILED' | 'CANCELLED'): void {
    run.status = status
    if (run.activation) this.send(run, run.activation, { type: 'drop', why: 'closed' })
  }

  // Items.

  private carryOut(run: MemoryRun, activation: Activation, item: Item): void {
    if ('op' in item) this.asked(run, activation, item)
    else if ('took' in item) this.took(run, activation, item.took)
    else if ('outcome' in item) this.attemptEnded(activation, item)
    else if ('abandon' in item) this.abandoned(activation, item.abandon)
    else if ('closeScope' in item) {
      const scope = activation.scopes.get(item.closeScope)
      if (scope && 'failure' in item) scope.failure = item.failure
    } else if ('evicted' in item) run.activation = undefined
    else if ('violation' in item) {
      run.violation = item.violation
      run.status = 'PAUSED'
    } else activation.end = item
  }

  private asked(run: MemoryRun, activation: Activation, item: OperationItem): void {
    const name = nameOf(item)
    if (item.do === 'scope' || item.do === 'shield') {
      activation.scopes.set(item.op, { parent: item.scope, isOver: false })
      return
    }
    const ordinal = (activation.ordinals.get(name) ?? 0) + 1
    activation.ordinals.set(name, ordinal)
    const id = ordinal === 1 ? name : `${name}#${ordinal}`
    const step = run.steps.get(id) ?? this.newStep(run, id, item)
    activation.operations.set(item.op, step)
  }

  private newStep(run: MemoryRun, id: string, item: OperationItem): StoredStep {
    const step: StoredStep = { id, kind: recordedKind(item.do), item, status: 'WAITING', next: 'effect', attempts: 0, probes: 0, denials: 0 }
    run.steps.set(id, step)
    switch (item.do) {
      case 'step':
        this.tryAgainAt(step, this.now)
        break
      case 'value':
        this.conclude(step, { output: item.value })
        break
      case 'sleep':
        step.dueAt = item.until === undefined ? this.now + parseDuration(item.for ?? 0) : Date.parse(item.until)
        break
      case 'afterEffect': {
        const message = { id: `${this.prefix(run)}:${id}`, target: item.target, body: item.body }
        this.sent.push(message)
        this.conclude(step, { output: new RawJson(JSON.stringify(message.id)) })
        break
      }
      case 'child': {
        const [name = '', version] = item.workflow.split('@')
        step.child = this.start(name, Number(version ?? 0), item.input, { run: run.id, step: id }).id
        break
      }
      case 'promise':
      case 'awaitPromise':
      case 'signal':
        if (item.timeout !== undefined) step.dueAt = this.now + parseDuration(item.timeout)
        break
      default:
        break
    }
    return step
  }

  private took(run: MemoryRun, activation: Activation, op: number): void {
    if (activation.told === op) activation.told = undefined
    activation.taken.add(op)
    const step = activation.operations.get(op)
    if (step && step.order === undefined) step.order = ++run.taken
  }

  private abandoned(activation: Activation, op: number): void {
    const step = activation.operations.get(op)
    if (!step || isOver(step)) return
    // An effect that may have happened and has to be undone is not forgotten.
    const isOwed = step.item.do === 'step' && step.item.compensate && step.attempts > 0
    if (!isOwed) step.status = 'CANCELLED'
  }

  private attemptEnded(activation: Activation, item: { outcome: number; attempt: number; do?: 'probe' | 'undo' } & AttemptOutcome): void {
    const begun = activation.inFlight.get(item.outcome)
    const step = activation.operations.get(item.outcome)
    if (!step || begun?.attempt !== item.attempt || begun.do !== (item.do ?? 'effect')) return
    activation.inFlight.delete(item.outcome)
    if (begun.do === 'undo') this.undoEnded(step, item)
    else if (!isOver(step)) this.effectEnded(step, item)
  }

  private effectEnded(step: StoredStep, outcome: AttemptOutcome): void {
    const { retry, claimed } = step.item as StepItem
    if ('answer' in outcome) this.probed(step, outcome)
    else if ('output' in outcome) this.conclude(step, outcome)
    else if (outcome.failure.class === 'unknown' && claimed) this.inDoubt(step)
    else if (outcome.failure.class === 'permanent' || step.attempts >= (retry?.maxAttempts ?? DEFAULT_ATTEMPTS)) this.conclude(step, outcome)
    else {
      const first = parseDuration(retry?.first ?? FIRST_WAIT)
      const wait = first * (retry?.factor ?? 2) ** (step.attempts - 1)
      this.tryAgainAt(step, this.now + Math.min(wait, parseDuration(retry?.cap ?? LONGEST_WAIT)))
    }
  }

  private undoEnded(step: StoredStep, outcome: AttemptOutcome): void {
    if (!step.undo) return
    if ('output' in outcome) step.undo.status = 'COMPLETED'
    else if (('failure' in outcome && outcome.failure.class === 'permanent') || step.undo.attempts >= DEFAULT_ATTEMPTS) step.undo.status = 'IN_DOUBT'
    else step.undo.dueAt = this.now + FIRST_WAIT * 2 ** step.undo.attempts
  }

  // Doubts.

  private inDoubt(step: StoredStep): void {
    const { probe, probeSettle, onDoubt } = step.item as StepItem
    if (probe && step.probes < MAX_PROBES) {
      const settle = step.probes + step.denials > 0 ? CONFIRM_AFTER : parseDuration(probeSettle ?? DEFAULT_SETTLE)
      step.next = 'probe'
      this.tryAgainAt(step, this.now + settle)
    } else if (onDoubt === 'retry') this.tryAgainAt(step, this.now)
    else if (onDoubt === 'fail') this.conclude(step, { failure: { message: `nobody knows whether ${step.id} happened`, class: 'unknown', code: 'in_doubt' } })
    else step.status = 'IN_DOUBT'
  }

  private probed(step: StoredStep, found: AttemptOutcome & { answer: string }): void {
    if ('output' in found) return this.conclude(step, { output: found.output })
    if (found.answer === 'did_not_happen' && ++step.denials >= 2) {
      Object.assign(step, { next: 'effect', probes: 0, denials: 0 })
      return this.tryAgainAt(step, this.now)
    }
    if (found.answer !== 'did_not_happen') step.probes++
    this.inDoubt(step)
  }

  private keepAsEvidence(run: MemoryRun, items: readonly Item[]): void {
    const { activation } = run
    for (const item of items) {
      if (!('outcome' in item) || !('output' in item) || item.do !== undefined) continue
      // Operations have the same numbers in every activation of deterministic code.
      const step = activation?.operations.get(item.outcome)
      if (!step) continue
      this.late.push({ run: run.id, step: step.id })
      const isDoubtful = step.status === 'IN_DOUBT' || (step.next === 'probe' && !isOver(step))
      if (isDoubtful) this.conclude(step, { output: item.output })
    }
  }

  private conclude(step: StoredStep, outcome: { output: RawJson } | { failure: WireFailure }): void {
    if ('output' in outcome) Object.assign(step, { status: 'COMPLETED', output: outcome.output })
    else Object.assign(step, { status: 'FAILED', failure: outcome.failure })
    delete step.dueAt
  }

  private tryAgainAt(step: StoredStep, at: number): void {
    step.status = 'PENDING'
    step.dueAt = at
  }

  private prefix(run: MemoryRun): string {
    return run.generation === 0 ? run.id : `${run.id}.${run.generation}`
  }

  private send(run: MemoryRun, activation: Activation, message: Addressed): void {
    activation.outbox.push({ ...message, run: run.id, activation: activation.id })
  }
}

type Unaddressed<T> = T extends { activation: string } ? Omit<T, 'run' | 'activation'> : never
type Addressed = Unaddressed<ServerMessage>
