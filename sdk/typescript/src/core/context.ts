import { Failure, isFailure, toWire } from '../failure.js'
import type { Duration } from '../duration.js'
import { RawJson } from '../json/index.js'
import type { Logger, LogFields } from '../log.js'
import { type StandardSchema, validateNow } from '../schema.js'
import type { Stored } from '../stored.js'
import { type InputOf, type OutputOf, type AnyWorkflow, workflowName } from '../workflow.js'
import type { Attempt } from './attempt.js'
import { Branch } from './branch.js'
import type { AskedStep, Machine, Unnumbered } from './machine.js'
import type { OperationItem } from './messages.js'
import type { Operation } from './operation.js'
import { encode } from './run-attempt.js'
import {
  type AwaitPromiseOptions,
  type ChildOptions,
  given,
  type PromiseOptions,
  type SignalOptions,
  span,
  stepItem,
  type StepOptions,
} from './options.js'

/** A promise that was made, with the id by which others settle it. */
export type DurablePromise<T> = Promise<T> & { readonly id: string }

/** A branch of a race: a function, which gets a context of its own, or a promise of the context. */
export type Racer<T> = ((ctx: Ctx) => Promise<T> | T) | Promise<T>

type Won<T> = T extends (ctx: Ctx) => infer Result ? Awaited<Result> : Awaited<T>

/** The branch that ended first, and its value. */
export type Selected<Branches extends Record<string, Racer<unknown>>> = {
  [Which in keyof Branches]: { readonly which: Which; readonly value: Won<Branches[Which]> }
}[keyof Branches]

const NEVER: Promise<never> = new Promise<never>(() => undefined)

class ContinueAsNew extends Error {
  constructor() {
    super('the run continues as new')
    this.name = 'ContinueAsNew'
  }
}

/**
 * What workflow code does things with. Between its calls the code must be deterministic: given the same outcomes, it asks for the
 * same things. Await only what the context returns.
 */
export class Ctx {
  /** Logs what the workflow does. Silent while the code is replayed. */
  readonly log: Logger

  /** @internal */
  constructor(
    private readonly machine: Machine,
    private readonly branch: Branch,
    private readonly scopeOp: number | undefined,
    private readonly sink: Logger,
  ) {
    const told = (level: keyof Logger) => (message: string, fields?: LogFields) => {
      if (!machine.isReplaying && !branch.isLost) sink[level](message, { run: machine.run, ...fields })
    }
    this.log = { debug: told('debug'), info: told('info'), warn: told('warn'), error: told('error') }
  }

  /** Id of the run. */
  get runId(): string {
    return this.machine.run
  }

  /** Name and version of the workflow that the run is pinned to. */
  get workflow(): { name: string; version: number } {
    return { name: this.machine.message.workflow, version: this.machine.message.version }
  }

  /** Workspace of the run. */
  get workspace(): string | undefined {
    return this.machine.message.workspace
  }

  /** The input as it was given, byte for byte. */
  get rawInput(): string {
    return this.machine.message.input?.text ?? 'null'
  }

  /** True while the code is given what it was given before. For logs and metrics only: never decide by it. */
  get isReplaying(): boolean {
    return this.machine.isReplaying
  }

  /**
   * Runs an effect, and records its outcome. Send `attempt.key` to a provider that honours idempotency keys; declare the step
   * `claimed` if there is none.
   */
  step<T>(name: string, effect: (attempt: Attempt) => T | Promise<T>, options: StepOptions<T> = {}): Promise<Stored<T>> {
    const { claimed = false, nonIdempotent = false, probe, compensate } = options
    if (nonIdempotent && !claimed) {
      const text = `step ${name} is not idempotent, and nothing keeps it from happening twice: take it with { claimed: true }`
      return Promise.reject(Failure.permanent(text, { code: 'unprotected_effect' }))
    }
    const undo = compensate as ((output: unknown, attempt: Attempt) => unknown) | undefined
    const code: AskedStep = { code: { effect, probe, compensate: undo }, goesOnByItself: !claimed }
    return this.asked(() => this.ask('step', name, stepItem(name, options), code)) as Promise<Stored<T>>
  }

  /**
   * Makes a durable promise: somebody settles it once, by its id or its key. It is made at once; await it for its value.
   *
   * ```ts
   * const approval = ctx.promise<{ ok: boolean }>("approval", { timeout: "3d" })
   * await ctx.step("ask", () => mail(`please decide on ${approval.id}`))
   * const { ok } = await approval
   * ```
   */
  promise<T = unknown>(name: string, options: PromiseOptions<T> = {}): DurablePromise<T> {
    const { key, keyTtlSeconds, timeout, schema } = options
    const asked = this.asked(() => {
      const item = given({
        do: 'promise' as const,
        name,
        idempotencyKey: key,
        idempotencyKeyTtlSeconds: keyTtlSeconds,
        timeout: span(timeout),
      })
      return this.ask('promise', name, item)
    })
    const id = this.machine.operationOf(asked)?.id ?? name
    const prefix = this.machine.message.keyPrefix ?? this.machine.run
    return Object.assign(this.checked(asked, schema, `the value of promise ${name}`), { id: `${prefix}:${id}` })
  }

  /** Waits for a promise that belongs to no run. It is made if it does not exist yet. */
  awaitPromise<T = unknown>(id: string, options: AwaitPromiseOptions<T> = {}): Promise<T> {
    const item = () => given({ do: 'awaitPromise' as const, id, timeout: span(options.timeout) }) as Unnumbered<OperationItem>
    return this.checked(
      this.asked(() => this.ask('promise', 'promise', item())),
      options.schema,
      `the value of promise ${id}`,
    )
  }

  /** Waits for the next signal of this name. One that came earlier was kept. */
  signal<T = unknown>(name: string, options: SignalOptions<T> = {}): Promise<T> {
    const item = () => given({ do: 'signal' as const, name, as: options.as, timeout: span(options.timeout) }) as Unnumbered<OperationItem>
    return this.checked(
      this.asked(() => this.ask('signal', options.as ?? name, item())),
      options.schema,
      `the payload of signal ${name}`,
    )
  }

  /** Sleeps. The timer survives crashes; a sleeping run needs no memory. */
  sleep(duration: Duration, options: { name?: string } = {}): Promise<null> {
    const item = () => given({ do: 'sleep' as const, for: span(duration), name: options.name }) as Unnumbered<OperationItem>
    return this.asked(() => this.ask('sleep', options.name ?? 'sleep', item())) as Promise<null>
  }

  /** Sleeps until a point in time. */
  sleepUntil(at: Date | string, options: { name?: string } = {}): Promise<null> {
    const item = () =>
      given({ do: 'sleep' as const, until: new Date(at).toISOString(), name: options.name }) as Unnumbered<OperationItem>
    return this.asked(() => this.ask('sleep', options.name ?? 'sleep', item())) as Promise<null>
  }

  /** Starts a child run, once, and waits for its output. If it fails, this fails with its failure. */
  child<W extends AnyWorkflow>(workflow: W, input: InputOf<W>, options?: ChildOptions): Promise<OutputOf<W>>
  child<T = unknown>(workflow: string, input?: unknown, options?: ChildOptions): Promise<T>
  child(workflow: AnyWorkflow | string, input?: unknown, options: ChildOptions = {}): Promise<unknown> {
    const { name, selector } = workflowName(workflow)
    return this.asked(() => {
      const { as, onClose } = options
      const item = given({ do: 'child' as const, workflow: selector, input: encode(input), as, onClose })
      return this.ask('child', as ?? name, item)
    })
  }

  /** Sends a message to a target, at least once, if and only if everything so far is recorded. Returns the id of the message. */
  afterEffect(target: string, body: unknown): Promise<string> {
    return this.asked(() => this.ask('afterEffect', target, { do: 'afterEffect', target, body: encode(body) })) as Promise<string>
  }

  /** The time, the same in every replay. */
  now(): Date {
    return new Date(Number(this.machine.value(this.branch, 'now', () => this.machine.environment.now())))
  }

  /** A random number from 0 to less than 1, the same in every replay. */
  random(): number {
    return Number(this.machine.value(this.branch, 'random', () => this.machine.environment.random()))
  }

  /** A value that `make` computes once. Every replay gets the recorded one. */
  remember<T>(name: string, make: () => T): Stored<T> {
    return this.machine.value(this.branch, name, make) as Stored<T>
  }

  /** Waits for all, then fails with the first failure in the order of the list, or gives the list of values. */
  async all<T extends readonly unknown[]>(promises: readonly [...T]): Promise<{ -readonly [Index in keyof T]: Awaited<T[Index]> }> {
    const settled = await Promise.allSettled(promises)
    const values = settled.map(outcome => {
      if (outcome.status === 'rejected') throw outcome.reason
      return outcome.value
    })
    return values as { -readonly [Index in keyof T]: Awaited<T[Index]> }
  }

  /** The value, or the failure, of the first to end. The others are abandoned. */
  async race<T>(branches: readonly Racer<T>[]): Promise<T> {
    const { value } = await this.select(Object.fromEntries(branches.map((branch, index) => [String(index), branch])))
    return value
  }

  /**
   * The first branch to end, by name, with its value; its failure, if it fails. The others are abandoned: what they wait for is
   * cancelled, and they do nothing more.
   *
   * ```ts
   * const first = await ctx.select({ approved: ctx.signal<Approval>("approved"), late: ctx.sleep("3d") })
   * if (first.which === "late") throw Failure.permanent("nobody decided")
   * ```
   */
  select<Branches extends Record<string, Racer<unknown>>>(branches: Branches): Promise<Selected<Branches>> {
    const racers = Object.entries(branches).map(([which, racer]) => {
      const branch = new Branch(this.branch)
      const promise = typeof racer === 'function' ? this.within(branch, this.scopeOp).call(racer) : racer
      return { which, branch, promise }
    })
    if (racers.length === 0) {
      return Promise.reject(Failure.permanent('select needs at least one branch', { code: 'invalid' }))
    }
    return new Promise((resolve, reject) => {
      let isDecided = false
      for (const { which, branch, promise } of racers) {
        const first = (then: () => void) => {
          if (isDecided || this.branch.isLost) return
          isDecided = true
          const losers = racers.filter(racer => racer.branch !== branch)
          this.machine.lose(
            losers.map(racer => racer.branch),
            losers.map(racer => racer.promise),
          )
          then()
        }
        promise.then(
          value => first(() => resolve({ which, value } as unknown as Selected<Branches>)),
          // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the branch's own failure
          (error: unknown) => first(() => reject(error)),
        )
      }
    })
  }

  /**
   * Runs `body` as a saga. If it fails, its steps with a compensation are undone, last first, and this fails with its failure.
   * If it succeeds, they belong to what is around it.
   */
  async scope<T>(body: (ctx: Ctx) => Promise<T> | T): Promise<T> {
    const scope = this.machine.openScope(this.branch, 'scope', this.scopeOp)
    if (scope === undefined) return NEVER
    const value = await this.within(this.branch, scope.op)
      .call(body)
      .catch((error: unknown) => this.undone(scope, error))
    await this.machine.closeScope(scope)
    return value
  }

  /** Runs `body` to its end even if the run is cancelled meanwhile. */
  async shield<T>(body: (ctx: Ctx) => Promise<T> | T): Promise<T> {
    const shield = this.machine.openScope(this.branch, 'shield', this.scopeOp)
    if (shield === undefined) return NEVER
    try {
      return await this.within(this.branch, shield.op).call(body)
    } finally {
      await this.machine.closeScope(shield)
    }
  }

  /** Ends this run and begins it anew, with another input and an empty history, under the same id and key. */
  continueAsNew(input: unknown): never {
    this.machine.continueAsNew(input)
    throw new ContinueAsNew()
  }

  private async undone(scope: Operation, error: unknown): Promise<never> {
    try {
      await this.machine.closeScope(scope, toWire(error))
    } catch (failure) {
      if (isFailure(failure) && failure.code === 'undo_failed') throw failure
    }
    throw error
  }

  private within(branch: Branch, scope: number | undefined): Ctx {
    return new Ctx(this.machine, branch, scope, this.sink)
  }

  private async call<T>(body: (ctx: Ctx) => Promise<T> | T): Promise<T> {
    return body(this)
  }

  private ask(kind: string, name: string, item: Unnumbered<OperationItem>, step?: AskedStep): Promise<unknown> {
    const scoped = this.scopeOp === undefined ? item : { ...item, scope: this.scopeOp }
    return this.machine.ask(this.branch, kind, name, scoped, step)
  }

  /** Makes a malformed argument a rejection, like every other failure of an operation. */
  private asked(ask: () => Promise<unknown>): Promise<unknown> {
    try {
      return ask()
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      return Promise.reject(isFailure(error) ? error : Failure.permanent(text, { code: 'invalid', cause: error }))
    }
  }

  private checked<T>(asked: Promise<unknown>, schema: StandardSchema<unknown, T> | undefined, what: string): Promise<T> {
    if (schema === undefined) return asked as Promise<T>
    const checked = asked.then(value => validateNow(schema, value, what, 'output_mismatch'))
    checked.catch(() => undefined)
    this.machine.alias(checked, asked)
    return checked
  }
}

/** A value that is put into JSON as it is. */
export function rawJson(text: string): RawJson {
  JSON.parse(text)
  return new RawJson(text)
}
