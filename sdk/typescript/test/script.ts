import { Failure } from '../src/failure.js'
import { JsonNumber } from '../src/json/index.js'
import { type Ctx, type StepOptions, cannotTell } from '../src/core/index.js'
import type { PromiseOptions, SignalOptions, AwaitPromiseOptions, ChildOptions } from '../src/core/index.js'

/** A statement of a fixture's script. See sdk/fixtures/README.md. */
export type Statement = Record<string, unknown>

interface WireOptions extends Record<string, unknown> {
  probe?: boolean
  compensate?: boolean
}

class Returned {
  constructor(readonly value: unknown) {}
}

/** Runs the script of a fixture as a workflow. */
export async function runScript(ctx: Ctx, script: Statement[], input: unknown): Promise<unknown> {
  const ended = await new Interpreter(ctx, new Map([['input', input]])).block(script)
  return ended.returned ? ended.returned.value : null
}

interface Ended {
  value: unknown
  returned?: Returned
}

class Interpreter {
  constructor(
    private readonly ctx: Ctx,
    private readonly variables: Map<string, unknown>,
  ) {}

  async block(script: Statement[]): Promise<Ended> {
    let ended: Ended = { value: null }
    for (const statement of script) {
      ended = await this.statement(statement)
      if (ended.returned) return ended
      if (typeof statement.as === 'string') this.variables.set(statement.as, ended.value)
    }
    return ended
  }

  private async statement(statement: Statement): Promise<Ended> {
    if ('return' in statement) return { value: null, returned: new Returned(this.expression(statement.return)) }
    if ('try' in statement) {
      try {
        return await this.block(statement.try as Statement[])
      } catch (error) {
        this.variables.set('error', error)
        return this.block(statement.catch as Statement[])
      }
    }
    if ('repeat' in statement) {
      let ended: Ended = { value: null }
      for (let n = 0; n < Number(statement.repeat) && !ended.returned; n++) ended = await this.block(statement.do as Statement[])
      return ended
    }
    if ('promise' in statement && typeof statement.open === 'string') {
      this.variables.set(statement.open, this.ctx.promise(String(statement.promise), statement.options as PromiseOptions))
      return { value: null }
    }
    return { value: await this.value(statement) }
  }

  private value(statement: Statement): unknown {
    const { ctx } = this
    const options = (statement.options ?? {}) as WireOptions
    const named = typeof statement.name === 'string' ? { name: statement.name } : {}
    const kind = Object.keys(statement).find(key => key in CALLS) ?? 'nothing'
    switch (kind) {
      case 'step':
        return ctx.step(String(statement.step), () => null, stepOptions(options))
      case 'promise':
        return ctx.promise(String(statement.promise), options as PromiseOptions)
      case 'wait':
        return this.variables.get(String(statement.wait))
      case 'awaitPromise':
        return ctx.awaitPromise(String(statement.awaitPromise), options as AwaitPromiseOptions)
      case 'signal':
        return ctx.signal(String(statement.signal), options as SignalOptions)
      case 'sleep':
        return ctx.sleep(String(statement.sleep), named)
      case 'sleepUntil':
        return ctx.sleepUntil(String(statement.sleepUntil), named)
      case 'child':
        return ctx.child(String(statement.child), this.expression(statement.input), options as ChildOptions)
      case 'afterEffect':
        return ctx.afterEffect(String(statement.afterEffect), this.expression(statement.body))
      case 'now':
        return ctx.now().getTime()
      case 'random':
        return ctx.random()
      case 'remember':
        return ctx.remember(String(statement.remember), () => this.expression(statement.value))
      case 'all':
        return ctx.all((statement.all as Statement[][]).map(branch => this.within(ctx, branch)))
      case 'race':
        return this.race(statement.race as Statement[][])
      case 'scope':
        return ctx.scope(inner => this.within(inner, statement.scope as Statement[]))
      case 'shield':
        return ctx.shield(inner => this.within(inner, statement.shield as Statement[]))
      case 'throw': {
        const failure = statement.throw as { message: string; class: 'permanent'; code?: string }
        throw new Failure(failure.class, failure.message, failure.code === undefined ? {} : { code: failure.code })
      }
      case 'continueAsNew':
        return ctx.continueAsNew(this.expression(statement.continueAsNew))
      case 'foreign':
        return new Promise(() => undefined)
      default:
        throw new Error(`the script has a statement that is not known: ${JSON.stringify(statement)}`)
    }
  }

  private async race(branches: Statement[][]): Promise<unknown> {
    const racers = branches.map((branch, index) => [String(index), (ctx: Ctx) => this.within(ctx, branch)] as const)
    const { which, value } = await this.ctx.select(Object.fromEntries(racers))
    return { index: Number(which), value }
  }

  /** Runs a block with its own variables on top of these. A block's value is what it is for. */
  private async within(ctx: Ctx, block: Statement[]): Promise<unknown> {
    return (await new Interpreter(ctx, new Map(this.variables)).block(block)).value
  }

  private expression(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(item => this.expression(item))
    if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return value
    if ('var' in value) return this.variable(String(value.var))
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.expression(item)]))
  }

  private variable(path: string): unknown {
    const [name = '', ...fields] = path.split('.')
    return fields.reduce<unknown>((value, field) => (value as Record<string, unknown>)[field] ?? null, this.variables.get(name) ?? null)
  }
}

const CALLS: Record<string, true> = {
  step: true,
  promise: true,
  wait: true,
  awaitPromise: true,
  signal: true,
  sleep: true,
  sleepUntil: true,
  child: true,
  afterEffect: true,
  now: true,
  random: true,
  remember: true,
  all: true,
  race: true,
  scope: true,
  shield: true,
  throw: true,
  continueAsNew: true,
  foreign: true,
}

function stepOptions({ probe, compensate, ...rest }: WireOptions): StepOptions<null> {
  return { ...rest, ...(probe ? { probe: () => cannotTell } : {}), ...(compensate ? { compensate: () => null } : {}) }
}
