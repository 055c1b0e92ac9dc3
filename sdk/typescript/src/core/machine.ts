import { Failure, type WireFailure, fromWire, toWire } from '../failure.js'
import { NULL, type Numbers, type RawJson, parseJson } from '../json/index.js'
import type { Attempt, StepCode } from './attempt.js'
import { Branch } from './branch.js'
import type {
  ActivateMessage,
  AttemptKind,
  AttemptMessage,
  AttemptOutcome,
  Item,
  OperationItem,
  ResolvedMessage,
  RunMessage,
} from './messages.js'
import { Operation } from './operation.js'
import { ReplayLog, recordedKind } from './replay-log.js'
import { encode, runAttempt } from './run-attempt.js'
import { settled } from './settled.js'

/** What the core cannot make by itself. */
export interface MachineEnvironment {
  /** Milliseconds since 1970. */
  now: () => number
  /** A number from 0 to less than 1. */
  random: () => number
  /** What becomes of numbers that JavaScript cannot hold. */
  numbers?: Numbers
  /** Values that the code made in an earlier execution of this activation, by operation. */
  values?: ReadonlyMap<number, RawJson>
  /** Called when the code asks for something outside of its turn. The machine is over then. */
  onStray?: (turn: Turn) => void
}

/** An attempt to begin. */
export interface Begin {
  readonly op: number
  readonly do: AttemptKind
  readonly message: AttemptMessage
  /** Runs the user's code. It never rejects. */
  readonly run: (attempt: Attempt) => Promise<AttemptOutcome>
}

/** What one message came to. */
export interface Turn {
  /** Items to commit. */
  items: Item[]
  /** Attempts to begin. */
  begin: Begin[]
  /** Operations whose attempt is to be stopped. */
  abort: number[]
  /** True if the function is dropped. */
  forgotten: boolean
}

/** An attempt that ended. */
export interface AttemptEnded {
  op: number
  attempt: number
  do: AttemptKind
  outcome: AttemptOutcome
}

/** Workflow code, with its input decoded and checked. */
export type MachineCode = (machine: Machine, root: Branch) => unknown

const NAME = /^[A-Za-z0-9._-]{1,128}$/
const NEVER: Promise<never> = new Promise<never>(() => undefined)

/**
 * One activation of a run: the function, what it waits for, and the log it is replayed from.
 *
 * It has no clock, no timer, no network. Messages go in, items come out. Calls take turns: make the next one when the promise of
 * the last one has resolved.
 */
export class Machine {
  readonly run: string
  readonly activation: string
  readonly numbers: Numbers
  private readonly log: ReplayLog
  private readonly root = new Branch(undefined)
  private readonly operations = new Map<number, Operation>()
  /** Operations that the code waits for. */
  private readonly outstanding = new Set<Operation>()
  private readonly scopes = new Set<Operation>()
  private readonly byId = new Map<string, Operation>()
  private readonly byPromise = new WeakMap<object, Operation>()
  private readonly ordinals = new Map<string, number>()
  private items: Item[] = []
  private begin: Begin[] = []
  private abort: number[] = []
  private count = 0
  private inTurn = false
  private ended = false
  private stopped = false
  private closing = 0
  private forgotten = false
  private violation: string | undefined
  private continueWith: RawJson | undefined

  constructor(
    readonly message: ActivateMessage,
    private readonly code: MachineCode,
    readonly environment: MachineEnvironment,
  ) {
    this.run = message.run
    this.activation = message.activation
    this.numbers = environment.numbers ?? 'bigint'
    this.log = new ReplayLog(message.log ?? [])
  }

  /** True while the code is given what it was given before. */
  get isReplaying(): boolean {
    return this.log.peek() !== undefined
  }

  /** True if nothing more can come from this machine but undos. */
  get isOver(): boolean {
    return this.ended || this.forgotten || this.violation !== undefined
  }

  /** True if it can be forgotten without stopping anything. */
  get isIdle(): boolean {
    return !this.inTurn && [...this.outstanding].every(operation => operation.running === undefined)
  }

  /** Runs the code from the top, as far as the log goes and the code can. */
  async start(): Promise<Turn> {
    await this.turn(() => {
      new Promise(resolve => resolve(this.code(this, this.root))).then(
        value => this.returned(value),
        (error: unknown) => this.threw(error),
      )
    })
    await this.replay()
    return this.collect()
  }

  /** Takes a message for this activation. */
  async deliver(message: RunMessage): Promise<Turn> {
    switch (message.type) {
      case 'attempt':
        this.beginAttempt(message)
        break
      case 'resolved':
        await this.resolved(message)
        break
      case 'abort':
        this.abortAttempt(this.operations.get(message.op), message.attempt)
        break
      case 'stop':
        this.stopped = true
        break
      case 'drop':
        this.forget()
        break
    }
    return this.collect()
  }

  /**
   * Takes the outcome of an attempt. The code goes on at once if the protocol lets it. Without an item for the outcome, it can only
   * be handed in as evidence.
   */
  async attemptEnded({ op, attempt, do: kind, outcome }: AttemptEnded): Promise<Turn> {
    const operation = this.operations.get(op)
    const running = operation?.running
    // The number of an undo may be that of an effect that was given up. The outcome of the effect must not pass for its own.
    if (running !== undefined && running.do !== kind) return this.collect()
    const isCurrent = running?.attempt === attempt && operation?.aborted !== attempt
    if (operation !== undefined && running?.attempt === attempt) operation.running = undefined
    this.items.push({ outcome: op, attempt, ...kindOf(kind), ...outcome })
    const goesOn = isCurrent && operation !== undefined && kind === 'effect' && 'output' in outcome && this.mayGoOn(operation)
    if (goesOn) await this.give(operation, outcome)
    return this.collect()
  }

  /** Forgets the function because the worker needs room. */
  evict(): Turn {
    if (!this.isOver) this.items.push({ evicted: true })
    this.forget()
    return this.collect()
  }

  // Calls of the context.

  /** Asks for an operation, and returns the promise of its outcome. */
  ask(branch: Branch, kind: string, name: string, item: Unnumbered<OperationItem>, step?: AskedStep): Promise<unknown> {
    const wrong = this.checkName(name)
    if (wrong) return Promise.reject(wrong)
    const asked = this.next(branch, kind, name, item)
    if (!asked) return NEVER
    const operation = new Operation(asked.op, asked.id, branch)
    operation.step = step?.code
    operation.goesOnByItself = step?.goesOnByItself ?? false
    this.operations.set(asked.op, operation)
    this.byId.set(asked.id, operation)
    this.byPromise.set(operation.promise, operation)
    this.outstanding.add(operation)
    return operation.promise
  }

  /** A value that the code makes for itself: the recorded one, or a new one. */
  value(branch: Branch, name: string, make: () => unknown): unknown {
    const wrong = this.checkName(name)
    if (wrong) throw wrong
    if (branch.isLost || this.violation !== undefined) return make()
    if (!this.inTurn) throw new Error(this.stray(`the value ${JSON.stringify(name)}`))
    const op = ++this.count
    const id = this.nextId(name)
    const record = this.recordOf(id, 'value')
    const value = record?.output ?? this.environment.values?.get(op) ?? encode(make())
    this.items.push({ op, do: 'value', name, value })
    return this.decode(value)
  }

  /** Opens a scope or a shield. Undefined if the branch has lost. */
  openScope(branch: Branch, kind: 'scope' | 'shield', within: number | undefined): Operation | undefined {
    if (!this.mayAsk(branch, `a ${kind}`)) return undefined
    const operation = new Operation(++this.count, `~${kind}`, branch)
    this.items.push({ op: operation.op, do: kind, ...(within === undefined ? {} : { scope: within }) })
    this.operations.set(operation.op, operation)
    this.scopes.add(operation)
    return operation
  }

  /** Closes a scope. A scope that failed has to be undone first: the promise is that of its outcome. */
  async closeScope(scope: Operation, failure?: WireFailure): Promise<unknown> {
    if (scope.state !== 'open' || !this.mayAsk(scope.branch, 'the end of a scope')) return NEVER
    this.scopes.delete(scope)
    if (failure === undefined) {
      scope.state = 'done'
      this.items.push({ closeScope: scope.op, ok: true })
      return undefined
    }
    this.items.push({ closeScope: scope.op, failure })
    this.outstanding.add(scope)
    this.closing++
    return scope.promise
  }

  /** Ends the wait for everything that these branches, and these promises, wait for. */
  lose(branches: readonly Branch[], promises: readonly unknown[]): void {
    for (const branch of branches) branch.lost = true
    const direct = new Set(promises.map(promise => this.operationOf(promise)))
    const open = [...this.outstanding, ...this.scopes].filter(
      operation => direct.has(operation) || branches.some(branch => operation.branch.isWithin(branch)),
    )
    for (const operation of open.sort((one, other) => one.op - other.op)) {
      this.close(operation, 'abandoned')
      this.items.push({ abandon: operation.op })
    }
  }

  operationOf(promise: unknown): Operation | undefined {
    return typeof promise === 'object' && promise !== null ? this.byPromise.get(promise) : undefined
  }

  /** Lets a promise that follows from an operation stand for it in a race. */
  alias(promise: object, of: unknown): void {
    const operation = this.operationOf(of)
    if (operation) this.byPromise.set(promise, operation)
  }

  /** The code ends, and the run begins anew with another input. */
  continueAsNew(input: unknown): void {
    this.continueWith = encode(input)
  }

  decode(value: RawJson): unknown {
    return parseJson(value.text, this.numbers)
  }

  // Operations that the code asks for.

  private next(branch: Branch, kind: string, name: string, item: Unnumbered<OperationItem>): { op: number; id: string } | undefined {
    if (!this.mayAsk(branch, `${kind} ${JSON.stringify(name)}`)) return undefined
    const op = ++this.count
    const id = this.nextId(name)
    this.recordOf(id, kind)
    if (this.violation !== undefined) return undefined
    this.items.push({ op, ...item })
    return { op, id }
  }

  private mayAsk(branch: Branch, what: string): boolean {
    if (branch.isLost || this.violation !== undefined || this.forgotten) return false
    if (this.inTurn) return true
    this.stray(what)
    return false
  }

  private nextId(name: string): string {
    const ordinal = (this.ordinals.get(name) ?? 0) + 1
    this.ordinals.set(name, ordinal)
    return ordinal === 1 ? name : `${name}#${ordinal}`
  }

  private recordOf(id: string, kind: string) {
    const record = this.log.ask(id)
    if (record !== undefined && recordedKind(record.kind) !== recordedKind(kind)) {
      const text = `the history has a ${recordedKind(record.kind)} at ${JSON.stringify(id)}, but the code asks for a ${kind} there`
      this.violation ??= text
    }
    return record
  }

  private checkName(name: string): Failure | undefined {
    if (typeof name === 'string' && NAME.test(name)) return undefined
    return Failure.permanent(`${JSON.stringify(name)} is not a name: use 1 to 128 letters, digits, dots, dashes and underscores`, { code: 'invalid' })
  }

  private stray(what: string): string {
    const text =
      `the workflow asked for ${what} outside of its turn: between steps it awaited something that is not the context's, ` +
      'or it used the context inside of a step. Await only what the context returns, and do everything else in ctx.step'
    this.violation ??= text
    this.environment.onStray?.(this.collect())
    return text
  }

  // Turns.

  private async turn(act: () => void): Promise<void> {
    this.inTurn = true
    act()
    await settled()
    this.inTurn = false
    this.checkThatItWaits()
  }

  private async give(operation: Operation, outcome: Outcome): Promise<void> {
    this.items.push({ took: operation.op })
    await this.turn(() => {
      this.close(operation, 'done')
      if (outcome.failure) operation.reject(fromWire(outcome.failure))
      else operation.resolve(this.decode(outcome.output ?? NULL))
    })
  }

  /** Gives outcomes of the log to the code, in their order, up to the first scope that has to be undone. */
  private async replay(): Promise<void> {
    while (!this.isOver && this.closing === 0) {
      const record = this.log.peek()
      if (record === undefined) break
      const operation = this.byId.get(record.id)
      if (operation === undefined) {
        this.violation = this.unaskedText(record.kind, record.id)
        break
      }
      this.log.use(record.id)
      if (operation.state === 'open') await this.give(operation, record)
    }
    this.checkThatAllIsAsked()
  }

  /** Takes an outcome from the server. Behind a scope that failed in a replay, it gives those of the log as well. */
  private async resolved(message: ResolvedMessage): Promise<void> {
    const operation = this.operations.get(message.op)
    if (operation?.state !== 'open' || this.isOver) return
    this.abortAttempt(operation)
    this.log.use(operation.id)
    await this.give(operation, message)
    this.checkThatAllIsAsked()
  }

  private mayGoOn(operation: Operation): boolean {
    const isOnlyOne = this.outstanding.size === 1 && this.outstanding.has(operation)
    return operation.goesOnByItself && operation.state === 'open' && isOnlyOne && !this.stopped && !this.isOver && !this.isReplaying
  }

  private close(operation: Operation, state: 'done' | 'abandoned'): void {
    if (this.outstanding.delete(operation) && operation.id.startsWith('~')) this.closing--
    this.scopes.delete(operation)
    operation.state = state
    // A long run keeps only what may still be needed.
    if (state !== 'done') return
    this.byId.delete(operation.id)
    if (operation.step?.compensate === undefined) this.operations.delete(operation.op)
  }

  // Ends.

  private returned(value: unknown): void {
    if (this.isOver) return
    if (this.continueWith !== undefined) return this.end({ continueAsNew: this.continueWith })
    try {
      this.end({ return: encode(value) })
    } catch (error) {
      this.threw(error)
    }
  }

  private threw(error: unknown): void {
    if (this.isOver) return
    if (this.continueWith !== undefined) return this.end({ continueAsNew: this.continueWith })
    this.end({ throw: toWire(error) })
  }

  private end(item: Item): void {
    if (!this.inTurn) {
      this.stray('its end')
      return
    }
    this.ended = true
    this.root.lost = true
    this.outstanding.clear()
    this.items.push(item)
  }

  private forget(): void {
    this.forgotten = true
    this.root.lost = true
    for (const operation of this.operations.values()) this.abortAttempt(operation)
  }

  // Checks.

  private checkThatItWaits(): void {
    if (this.isOver || this.outstanding.size > 0) return
    this.violation =
      'the workflow waits for something that is not the context\'s: nothing is open, and it has not ended. ' +
      'Await only what the context returns, and do everything else in ctx.step'
  }

  /** Once the code has been given every outcome of the log, or has ended, it must have asked for every record. */
  private checkThatAllIsAsked(): void {
    const isComplete = this.ended || (this.closing === 0 && this.log.peek() === undefined)
    if (!isComplete || this.violation !== undefined || this.forgotten) return
    const record = this.log.firstUnasked()
    if (record) this.violation = this.unaskedText(record.kind, record.id)
  }

  private unaskedText(kind: string, id: string): string {
    const waits = [...this.outstanding].map(operation => JSON.stringify(operation.id))
    const code = this.ended ? 'ends' : `waits at ${waits.join(', ')}`
    return `the history has a ${recordedKind(kind)} at ${JSON.stringify(id)}, but the code ${code} without asking for it`
  }

  // Attempts.

  private beginAttempt(message: AttemptMessage): void {
    const operation = this.operations.get(message.op)
    const code = operation?.step
    if (operation === undefined || code === undefined) {
      const failure = Failure.unknown(`operation ${message.op} has no code to run`, { code: 'invalid' })
      this.items.push({ outcome: message.op, attempt: message.attempt, ...kindOf(message.do), failure: toWire(failure) })
      return
    }
    operation.running = message
    const run = (attempt: Attempt) => runAttempt(code, message, attempt, this.numbers)
    this.begin.push({ op: message.op, do: message.do, message, run })
  }

  /** Stops an attempt: the one of this number, or the one that runs. */
  private abortAttempt(operation: Operation | undefined, attempt = operation?.running?.attempt): void {
    if (operation?.running === undefined || attempt !== operation.running.attempt) return
    operation.aborted = attempt
    this.abort.push(operation.op)
  }

  /** What came of the calls since the last time. A violation stands for everything but outcomes, which must not be lost. */
  private collect(): Turn {
    let items = this.items
    if (this.violation !== undefined) {
      const outcomes = items.filter(item => 'outcome' in item)
      items = this.isReported ? outcomes : [...outcomes, { violation: this.violation }]
      this.isReported = true
    }
    const turn: Turn = { items, begin: this.begin, abort: this.abort, forgotten: this.forgotten }
    this.items = []
    this.begin = []
    this.abort = []
    return turn
  }

  private isReported = false
}

interface Outcome {
  output?: RawJson
  failure?: WireFailure
}

/** The code of a step that is asked for. */
export interface AskedStep {
  code: StepCode
  goesOnByItself: boolean
}

/** An item before it has its number. */
export type Unnumbered<T> = T extends unknown ? Omit<T, 'op'> : never

/** An outcome names what was attempted, unless it was the effect: undo and effect count their attempts each for themselves. */
function kindOf(kind: AttemptMessage['do']): { do?: 'probe' | 'undo' } {
  return kind === 'effect' ? {} : { do: kind }
}
