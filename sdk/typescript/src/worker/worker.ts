import { hostname } from 'node:os'
import { HapaxError } from '../client/problem.js'
import { type ConnectionOptions, Transport, pause } from '../client/transport.js'
import { Machine, type Begin, type Turn } from '../core/machine.js'
import type { ActionMessage, ActivateMessage, AttemptOutcome, Item, RunMessage, ServerMessage, TaskMessage } from '../core/messages.js'
import { type Duration, parseDuration } from '../duration.js'
import type { RawJson } from '../json/index.js'
import { type Logger, type LogLevel, jsonLogger } from '../log.js'
import { type OpenTelemetry, openTelemetry, withinTrace } from '../telemetry.js'
import { type AnyAction, type AnyTask, type AnyWorkflow, codeOf } from '../workflow.js'
import { VERSION } from '../version.js'
import { RunningAttempt } from './attempts.js'
import { RunCache, Slot } from './cache.js'
import { type Outcome, runAction, runTask } from './calls.js'
import { Hold, HoldClock } from './clock.js'
import { type HealthOptions, type HealthServer, serveHealth } from './health.js'
import { type Batch, Outbox } from './outbox.js'
import { deferred, isFatal, levelFromEnvironment, told, whatIsProven } from './errors.js'
import { Session, type SessionOffer } from './session.js'

/** Options of a worker. */
export interface WorkerOptions extends ConnectionOptions {
  /** A client whose connection is used. */
  client?: { readonly transport: Transport }
  /** Workflows that this worker runs. */
  workflows?: readonly AnyWorkflow[]
  /** Tasks that steps of documents may call. */
  tasks?: readonly AnyTask[]
  /** Actions that steps of entity workflows may call. */
  actions?: readonly AnyAction[]
  /** How many attempts, tasks and actions run at once; 64 by default. */
  concurrency?: number
  /** How many suspended runs are kept in memory; 1000 by default. Others are replayed when they go on. */
  cacheSize?: number
  /** Name that people see; the name of the host by default. */
  name?: string
  /** Name of this slot over restarts, such as the name of a pod. A worker that opens a session under it takes over at once. */
  instance?: string
  /** How long `stop` waits for attempts that run; 25 seconds by default. */
  grace?: Duration
  /** Whether SIGTERM and SIGINT stop the worker; true by default. */
  signals?: boolean
  /** Serves `GET /healthz`. */
  health?: HealthOptions
  /** Where logs go: JSON lines on standard error by default. */
  log?: Logger
  /** From which level on; `HAPAX_LOG` or `info` by default. */
  logLevel?: LogLevel
}

type State = 'new' | 'running' | 'stopping' | 'stopped'

const DEFAULT_CONCURRENCY = 64
const DEFAULT_CACHE = 1000

/** Wait after a refusal that is neither fatal nor known, in milliseconds. */
const RETRY_AFTER_REFUSAL = 1_000

/**
 * Runs workflows, tasks and actions in this process.
 *
 * ```ts
 * await new Worker({ workflows: [order], concurrency: 64 }).run()
 * ```
 */
export class Worker {
  private readonly transport: Transport
  private readonly log: Logger
  private readonly workflows = new Map<string, AnyWorkflow>()
  private readonly tasks: ReadonlyMap<string, AnyTask>
  private readonly actions: ReadonlyMap<string, AnyAction>
  private readonly cache: RunCache
  private readonly outbox = new Outbox()
  private readonly hold: Hold
  private readonly concurrency: number
  /** Tasks and actions that run. */
  private readonly calls = new Map<string, RunningAttempt>()
  /** What an attempt was about, for outcomes that arrive when its session is over. */
  private readonly evidence = new WeakMap<Item, { key: string; attempt: number; fence: number }>()
  private readonly lanes = new AbortController()
  private readonly opened = deferred()
  private session: Session | undefined
  private state: State = 'new'
  private running = 0
  private isCommitting = false
  private isFlushPlanned = false
  private lastAnswerAt = 0
  private telemetry: OpenTelemetry | undefined
  private fatal: Error | undefined
  private wakeStop: (() => void) | undefined
  private whenIdle: (() => void) | undefined

  constructor(private readonly options: WorkerOptions) {
    this.transport = options.client?.transport ?? new Transport(options)
    this.log = options.log ?? jsonLogger(options.logLevel ?? levelFromEnvironment())
    for (const workflow of options.workflows ?? []) this.workflows.set(`${workflow.name}@${workflow.version}`, workflow)
    this.tasks = new Map((options.tasks ?? []).map(task => [task.name, task]))
    this.actions = new Map((options.actions ?? []).map(action => [action.name, action]))
    this.cache = new RunCache(options.cacheSize ?? DEFAULT_CACHE)
    this.concurrency = options.concurrency ?? DEFAULT_CONCURRENCY
    this.hold = new Hold(new HoldClock(), () => this.holdEnded())
  }

  /**
   * Works until {@link stop} is called or SIGTERM arrives. Throws if the server refuses the worker, or if another has taken its
   * instance over.
   */
  async run(): Promise<void> {
    if (this.state !== 'new') throw new Error('a worker runs once: make another')
    this.state = 'running'
    this.telemetry = await openTelemetry()
    const health = this.options.health ? await this.serveHealth(this.options.health) : undefined
    const onSignal = () => void this.stop()
    const signals = this.options.signals === false ? [] : (['SIGTERM', 'SIGINT'] as const)
    for (const signal of signals) process.once(signal, onSignal)
    try {
      await this.work()
    } finally {
      for (const signal of signals) process.removeListener(signal, onSignal)
      this.state = 'stopped'
      this.opened.reject(this.fatal ?? new Error('the worker stopped before it was ready'))
      this.lanes.abort()
      this.forgetAll('the worker stopped', 'stopped')
      await health?.close()
    }
  }

  /** Resolves when the server knows what this worker offers. Rejects if `run` ends before. */
  ready(): Promise<void> {
    return this.opened.promise
  }

  /** Begins nothing more, waits for what runs, and gives all work back. Resolves when `run` is about to. */
  async stop(): Promise<void> {
    if (this.state !== 'running') return
    this.state = 'stopping'
    this.log.info('worker stops', { running: this.running })
    this.wakeStop?.()
    return Promise.resolve()
  }

  /** What this worker is doing. */
  get status(): { state: State; sessionId: string | undefined; running: number; cached: number } {
    return { state: this.state, sessionId: this.session?.id, running: this.running, cached: this.cache.size }
  }

  // Lanes.

  private async work(): Promise<void> {
    const stopped = new Promise<void>(resolve => (this.wakeStop = resolve))
    const polling = this.poll()
    await Promise.race([stopped, polling])
    await Promise.race([this.drain(), polling])
    this.lanes.abort()
    await polling
    if (this.fatal !== undefined) {
      this.log.error('the worker cannot go on', { error: told(this.fatal) })
      throw this.fatal
    }
    await this.session?.close().catch((error: unknown) => this.log.warn('the session could not be ended', { error: told(error) }))
  }

  /** Opens sessions, and polls them, until the lanes are aborted. */
  private async poll(): Promise<void> {
    while (!this.isClosing()) {
      const session = this.session
      try {
        if (session === undefined) this.session = await this.open()
        else {
          const messages = await session.poll(this.free())
          this.heard()
          this.take(messages)
        }
      } catch (error) {
        if (this.isClosing()) return
        await this.failed(session, error)
      }
    }
  }

  private isClosing(): boolean {
    return this.lanes.signal.aborted
  }

  private async open(): Promise<Session> {
    const { name, instance } = this.options
    const offer: SessionOffer = {
      name: name ?? hostname(),
      ...(instance === undefined ? {} : { instance }),
      sdk: 'typescript',
      sdkVersion: VERSION,
      host: hostname(),
      concurrency: this.concurrency,
      workflows: [...this.workflows.values()].map(workflow => ({ name: workflow.name, version: workflow.version })),
      tasks: [...this.tasks.keys()],
      actions: [...this.actions.keys()],
    }
    const session = await Session.open(this.transport, offer, this.hold, this.lanes.signal)
    this.heard()
    this.log.info('session opened', { session: session.id, url: this.transport.url, leaseForMs: session.leaseFor })
    this.opened.resolve()
    queueMicrotask(() => this.planFlush())
    return session
  }

  /** Plans a commit of everything that is there when this turn of the event loop ends. */
  private planFlush(): void {
    if (this.isFlushPlanned || this.isCommitting) return
    this.isFlushPlanned = true
    setImmediate(() => {
      this.isFlushPlanned = false
      void this.flush()
    })
  }

  private async flush(): Promise<void> {
    if (this.isCommitting) return
    this.isCommitting = true
    while (this.session !== undefined && !this.outbox.isEmpty && !this.isClosing()) {
      await this.commit(this.session, this.outbox.take(this.session.limits))
    }
    this.isCommitting = false
    this.checkIdle()
  }

  private async commit(session: Session, batch: Batch): Promise<void> {
    try {
      const messages = await session.commit(this.free(), batch.body)
      this.heard()
      this.take(messages)
    } catch (error) {
      if (this.isClosing()) return
      const isOver = error instanceof HapaxError && error.code === 'session_unknown'
      if (isOver) this.keepAsEvidence(batch)
      if (isOver || isFatal(error)) return this.failed(session, error)
      if (session !== this.session) return
      this.refused(batch, error)
    }
  }

  /** A commit that the server refused as a whole. Its runs are forgotten; they come back when their leases are over. */
  private refused(batch: Batch, error: unknown): void {
    this.log.error('a commit was refused', { error: told(error), runs: batch.runs.map(entry => entry.run) })
    for (const { run, activation } of batch.runs) {
      const slot = this.cache.use(run, activation)
      if (slot) this.drop(slot, 'its commit was refused', 'refused')
    }
  }

  /** A request of a session failed for good, or that which opens one. */
  private async failed(session: Session | undefined, error: unknown): Promise<void> {
    // The other lane has told it already.
    if (session !== this.session) return
    if (isFatal(error) || session === undefined) {
      this.fatal ??= error instanceof Error ? error : new Error(String(error))
      this.lanes.abort()
      return
    }
    const isOver = error instanceof HapaxError && error.code === 'session_unknown'
    if (isOver) this.log.warn('the session is over; a new one is opened', { session: session.id })
    else this.log.error('a request was refused; a new session is opened', { error: told(error) })
    this.session = undefined
    this.forgetAll('its session is over', 'lease_lost')
    if (!isOver) await pause(RETRY_AFTER_REFUSAL, this.lanes.signal)
  }

  /** Waits until nothing runs and everything is committed, or the grace is over. */
  private async drain(): Promise<void> {
    const idle = new Promise<void>(resolve => (this.whenIdle = resolve))
    this.checkIdle()
    const grace = new AbortController()
    await Promise.race([idle, pause(parseDuration(this.options.grace ?? '25s'), grace.signal)])
    grace.abort()
  }

  private checkIdle(): void {
    if (this.running === 0 && this.outbox.isEmpty && !this.isCommitting && !this.isFlushPlanned) this.whenIdle?.()
  }

  private heard(): void {
    this.lastAnswerAt = this.hold.now()
  }

  private free(): number {
    return this.state === 'running' ? Math.max(0, this.concurrency - this.running) : 0
  }

  // Messages.

  private take(messages: readonly ServerMessage[]): void {
    for (const message of messages) {
      switch (message.type) {
        case 'activate':
          this.activate(message)
          break
        case 'task':
          this.call(message, attempt => runTask(this.tasks.get(message.name), message, attempt))
          break
        case 'action':
          this.call(message, attempt => runAction(this.actions.get(message.name), message, attempt))
          break
        default:
          if ('call' in message) this.calls.get(message.call)?.abort('nobody waits for it any more', 'aborted')
          else this.deliver(message)
      }
    }
  }

  private activate(message: ActivateMessage): void {
    if (this.state !== 'running') return
    const slot = new Slot(message)
    const old = this.cache.add(slot)
    if (old) this.drop(old, 'it was activated anew', 'lease_lost')
    void slot.enqueue(async () => {
      const machine = await this.machineOf(slot)
      if (machine === undefined || slot.isDropped) return
      slot.machine = machine
      this.apply(slot, await machine.start())
      this.makeRoom()
    })
  }

  private async machineOf(slot: Slot): Promise<Machine | undefined> {
    const { message } = slot
    const workflow = this.workflows.get(`${message.workflow}@${message.version}`)
    const fields = { run: message.run, workflow: message.workflow, version: message.version }
    if (workflow === undefined) {
      this.log.error('a run of a workflow that this worker does not have', fields)
      this.cache.remove(slot)
      this.push(message, [{ evicted: true }])
      return undefined
    }
    try {
      const log = message.log ?? []
      if (message.logMore === true && this.session) log.push(...(await this.session.log(message.run, message.activation, log.length)))
      const code = await codeOf(workflow, message.input?.text ?? 'null', this.log)
      const environment = {
        now: () => Date.now(),
        random: () => Math.random(),
        numbers: workflow.numbers,
        onStray: (turn: Turn) => this.apply(slot, turn),
      }
      return new Machine({ ...message, log }, code, environment)
    } catch (error) {
      this.log.error('the log of a run could not be read', { ...fields, error: told(error) })
      this.cache.remove(slot)
      if (!slot.isDropped) this.push(message, [{ evicted: true }])
      return undefined
    }
  }

  private deliver(message: RunMessage): void {
    const slot = this.cache.use(message.run, message.activation)
    if (slot === undefined) return
    if (message.type === 'drop') this.logDrop(message)
    void slot.enqueue(async () => {
      if (slot.machine === undefined || slot.isDropped) {
        if (message.type === 'drop') this.cache.remove(slot)
        return
      }
      this.apply(slot, await slot.machine.deliver(message))
    })
  }

  private logDrop(message: RunMessage & { type: 'drop' }): void {
    const { run, why, problem } = message
    if (why === 'violation') this.log.error('the server dropped a run', { run, why, problem })
    else this.log.debug('run dropped', { run, why })
  }

  private apply(slot: Slot, turn: Turn): void {
    if (slot.isDropped) return
    for (const op of turn.abort) slot.attempts.get(op)?.abort('the server stopped it', 'aborted')
    for (const item of turn.items) if ('violation' in item) this.log.error('determinism violation', { run: slot.message.run, violation: item.violation })
    this.push(slot.message, turn.items)
    if (turn.forgotten) this.cache.remove(slot)
    else for (const begin of turn.begin) this.begin(slot, begin)
  }

  private push(message: ActivateMessage, items: readonly Item[]): void {
    if (items.length === 0) return
    this.outbox.push(message.run, message.activation, items)
    this.planFlush()
  }

  /** Forgets runs that wait, least recently used first, when there are too many. */
  private makeRoom(): void {
    for (const slot of this.cache.surplus()) {
      const turn = slot.machine?.evict()
      this.push(slot.message, turn?.items ?? [])
      this.cache.remove(slot)
      this.log.debug('run evicted', { run: slot.message.run })
    }
  }

  // Attempts.

  private begin(slot: Slot, begin: Begin): void {
    if (this.state !== 'running' || slot.isDropped) return
    if (!this.hold.isHeld) {
      this.hold.whenHeld(() => this.begin(slot, begin))
      return
    }
    const attempt = new RunningAttempt(begin.message, this.hold, slot.message.trace)
    slot.attempts.get(begin.op)?.abort('another attempt took its place', 'aborted')
    slot.attempts.set(begin.op, attempt)
    this.running++
    const fields = { run: slot.message.run, step: begin.message.id, effectKey: begin.message.key, attempt: begin.message.attempt, do: begin.do }
    this.log.debug('attempt begins', fields)
    void withinTrace(this.telemetry, slot.message.trace, () => begin.run(attempt)).then(async outcome => {
      attempt.end()
      if (slot.attempts.get(begin.op) === attempt) slot.attempts.delete(begin.op)
      if ('failure' in outcome) this.log.warn('attempt failed', { ...fields, failure: outcome.failure })
      await this.attemptEnded(slot, begin, attempt, outcome)
      this.running--
      this.checkIdle()
    })
  }

  private attemptEnded(slot: Slot, begin: Begin, attempt: RunningAttempt, outcome: AttemptOutcome): Promise<void> {
    const provable = attempt.lostHold ? whatIsProven(outcome) : outcome
    return slot.enqueue(async () => {
      if (slot.machine === undefined || slot.isDropped) {
        if (begin.do === 'effect' && 'output' in outcome) this.pushLate(attempt, outcome)
        return
      }
      const { op, do: kind } = begin
      const turn = await slot.machine.attemptEnded({ op, attempt: attempt.attempt, do: kind, outcome: provable })
      const reported = turn.items.find(item => 'outcome' in item)
      if (reported && kind === 'effect') this.evidence.set(reported, attempt)
      if (!reported && kind === 'effect' && 'output' in outcome) this.pushLate(attempt, outcome)
      this.apply(slot, turn)
      this.makeRoom()
    })
  }

  private call(message: TaskMessage | ActionMessage, run: (attempt: RunningAttempt) => Promise<Outcome>): void {
    if (this.state !== 'running') return
    if (!this.hold.isHeld) {
      this.hold.whenHeld(() => this.call(message, run))
      return
    }
    const { session } = this
    const attempt = new RunningAttempt(message, this.hold, message.trace)
    const fields = { call: message.call, name: message.name, effectKey: message.key, attempt: message.attempt }
    this.running++
    this.calls.set(message.call, attempt)
    this.log.debug(`${message.type} begins`, fields)
    void withinTrace(this.telemetry, message.trace, () => run(attempt)).then(outcome => {
      attempt.end()
      if (this.calls.get(message.call) === attempt) this.calls.delete(message.call)
      if ('failure' in outcome) this.log.warn(`${message.type} failed`, { ...fields, failure: outcome.failure })
      if (this.session === session) this.outbox.pushResult({ call: message.call, ...(attempt.lostHold ? whatIsProven(outcome) : outcome) })
      else if ('output' in outcome) this.pushLate(attempt, outcome)
      this.running--
      this.planFlush()
      this.checkIdle()
    })
  }

  // Work whose session, or whose hold, is over.

  private holdEnded(): void {
    this.log.warn('the hold has passed; nothing begins until the server answers', { running: this.running })
    const why = 'the worker can no longer be sure that it holds the run'
    const attempts = [...this.calls.values(), ...[...this.cache.values()].flatMap(slot => [...slot.attempts.values()])]
    for (const attempt of attempts) {
      attempt.lostHold = true
      attempt.abort(why, 'lease_lost')
    }
  }

  private drop(slot: Slot, why: string, code: string): void {
    slot.abortAll(why, code)
    this.cache.remove(slot)
  }

  private forgetAll(why: string, code: string): void {
    this.hold.release()
    for (const attempt of this.calls.values()) attempt.abort(why, code)
    for (const slot of this.cache.values()) slot.abortAll(why, code)
    this.cache.clear()
    if (this.state !== 'stopped') this.keepAsEvidence(this.outbox.take({ maxRunsPerCommit: Infinity, maxBodyBytes: Infinity }))
  }

  /** Keeps what is known of effects in a commit that can no longer be made. */
  private keepAsEvidence(batch: Batch): void {
    for (const item of batch.runs.flatMap(entry => entry.items)) {
      const attempt = this.evidence.get(item)
      if (attempt && 'output' in item) this.pushLate(attempt, item)
    }
    for (const result of batch.results) if ('late' in result) this.outbox.pushResult(result)
  }

  private pushLate({ key, attempt, fence }: { key: string; attempt: number; fence: number }, outcome: { output: RawJson }): void {
    this.log.warn('an outcome comes late; it is handed in as evidence', { effectKey: key, attempt, fence })
    this.outbox.pushResult({ late: { key, attempt, fence, output: outcome.output } })
    this.planFlush()
  }

  private serveHealth(options: HealthOptions): Promise<HealthServer> {
    return serveHealth(options, () => {
      const quietFor = this.hold.now() - this.lastAnswerAt
      const isConnected = this.session !== undefined && quietFor < this.session.leaseFor
      return { ...this.status, isHealthy: this.state === 'running' && isConnected, quietForMs: Math.round(quietFor) }
    })
  }
}
