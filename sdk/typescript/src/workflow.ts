import { brand } from './brand.js'
import { Branch } from './core/branch.js'
import { Ctx } from './core/context.js'
import type { MachineCode } from './core/machine.js'
import type { Attempt } from './core/attempt.js'
import { Failure, isFailure } from './failure.js'
import { type Numbers, parseJson } from './json/index.js'
import { type Logger, silent } from './log.js'
import { type StandardSchema, validate } from './schema.js'
import type { Stored } from './stored.js'

/** Options of a workflow. */
export interface WorkflowOptions<Input> {
  /** Version of the code, from 1. A run stays on the version it was started with. */
  version?: number
  /** Checks the input before a run is started, and before its code is called. The code gets what the schema makes of it. */
  input?: StandardSchema<never, Input> | StandardSchema<unknown, Input>
  /** What becomes of numbers that JavaScript cannot hold; `bigint` by default. */
  numbers?: Numbers
}

/** A workflow in code. */
export interface Workflow<Input, Output> {
  readonly name: string
  readonly version: number
  /** The code. */
  readonly run: (ctx: Ctx, input: Input) => Promise<Output> | Output
  readonly input: StandardSchema<unknown, Input> | undefined
  readonly numbers: Numbers
}

/** A workflow of any types. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- inputs stand on both sides of the arrow
export type AnyWorkflow = Workflow<any, any>

/** Type of the input of a workflow. */
export type InputOf<W> = W extends Workflow<infer Input, unknown> ? Input : never
/** Type of the output of a workflow, as it is stored. */
export type OutputOf<W> = W extends { readonly run: (...args: never[]) => infer Result } ? Stored<Awaited<Result>> : never

/**
 * Names a function as a workflow.
 *
 * ```ts
 * export const order = workflow("order", async (ctx, input: Order): Promise<Receipt> => {
 *   const charge = await ctx.step("charge", attempt => pay(input, attempt.key))
 *   return { charge }
 * })
 * ```
 */
export function workflow<Input, Output>(
  name: string,
  run: (ctx: Ctx, input: Input) => Promise<Output> | Output,
  options: WorkflowOptions<Input> = {},
): Workflow<Input, Output> {
  const { version = 1, numbers = 'bigint', input } = options
  if (!/^[A-Za-z0-9._-]{1,128}$/.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a name of a workflow`)
  if (!Number.isInteger(version) || version < 1) throw new TypeError(`${version} is not a version: it counts from 1`)
  return { name, version, run, input: input, numbers }
}

/** Name, and name with version, of a workflow that is given as code or as text. */
export function workflowName(workflow: AnyWorkflow | string): { name: string; selector: string } {
  if (typeof workflow !== 'string') return { name: workflow.name, selector: `${workflow.name}@${workflow.version}` }
  return { name: workflow.split('@')[0] ?? workflow, selector: workflow }
}

/**
 * The code of a workflow for a machine. The input is checked before the code is called, so that an asynchronous schema is
 * fine.
 */
export async function codeOf(workflow: AnyWorkflow, rawInput: string, log: Logger = silent): Promise<MachineCode> {
  let input: unknown
  let wrong: Failure | undefined
  try {
    input = parseJson(rawInput, workflow.numbers)
    if (workflow.input) input = await validate(workflow.input, input, `the input of ${workflow.name}`)
  } catch (error) {
    wrong = isFailure(error) ? error : Failure.permanent(String(error), { code: 'input_invalid' })
  }
  return (machine, root: Branch) => {
    if (wrong) throw wrong
    return workflow.run(new Ctx(machine, root, undefined, log), input) as unknown
  }
}

/** A call of a task or an action: an {@link Attempt} with what it is about. */
export interface Call extends Attempt {
  /** The input as it was given, byte for byte. */
  readonly rawInput: string
}

/** Options of a task. */
export interface TaskOptions<Input> {
  input?: StandardSchema<unknown, Input>
  numbers?: Numbers
}

/** Code that a step of a document calls: `{"type": "task", "task": "send-mail"}`. */
export interface Task<Input = unknown, Output = unknown> {
  readonly name: string
  /** The code. */
  readonly run: (input: Input, call: Call) => Promise<Output> | Output
  readonly input: StandardSchema<unknown, Input> | undefined
  readonly numbers: Numbers
}

/** Names a function as a task that documents can call. */
export function task<Input, Output>(
  name: string,
  run: (input: Input, call: Call) => Promise<Output> | Output,
  options: TaskOptions<Input> = {},
): Task<Input, Output> {
  return { name, run, input: options.input, numbers: options.numbers ?? 'bigint' }
}

/** A task of any types. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- inputs stand on both sides of the arrow
export type AnyTask = Task<any, any>

/** A business object, as an action sees it. */
export interface ActionEntity<Data = unknown> {
  readonly type: string
  readonly id: string
  readonly status: string
  readonly data: Data
}

/** Call of an action. */
export interface ActionCall<Input = unknown> extends Call {
  /** The step of the entity workflow. */
  readonly step: string
  /** Who asked for it. */
  readonly requester: string | undefined
  readonly input: Input
}

/** Says that an action decided not to act, and that nothing happened. */
export class Rejected {
  constructor(readonly reason: string) {}
}

/** Whether an action decided not to act. */
export const isRejected = brand(Rejected, 'Rejected')

/** Decides not to act. Nothing happened, and the object keeps its status. */
export function rejected(reason: string): Rejected {
  return new Rejected(reason)
}

/** Code that a step of an entity workflow calls: `"action": {"admin": "CloseBillingActionUseCase"}`. */
export interface Action<Data = unknown, Input = unknown, Output = unknown> {
  readonly name: string
  /** The code. */
  readonly run: (entity: ActionEntity<Data>, call: ActionCall<Input>) => Promise<Output | Rejected> | Output | Rejected
  readonly numbers: Numbers
}

/** Names a function as an action of entity workflows. */
export function action<Data = unknown, Input = unknown, Output = unknown>(
  name: string,
  run: (entity: ActionEntity<Data>, call: ActionCall<Input>) => Promise<Output | Rejected> | Output | Rejected,
  options: { numbers?: Numbers } = {},
): Action<Data, Input, Output> {
  return { name, run, numbers: options.numbers ?? 'bigint' }
}

/** An action of any types. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- inputs stand on both sides of the arrow
export type AnyAction = Action<any, any, any>
