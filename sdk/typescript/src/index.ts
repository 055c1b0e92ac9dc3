export { Ctx, type DurablePromise, type Racer, type Selected, rawJson } from './core/context.js'
export { type Attempt, type ProbeAnswer, cannotTell, didNotHappen, happened } from './core/attempt.js'
export type { AwaitPromiseOptions, ChildOptions, PromiseOptions, RetryPolicy, SignalOptions, StepOptions } from './core/options.js'
export type { Duration } from './duration.js'
export { Failure, type FailureClass, type FailureOptions } from './failure.js'
export { JsonNumber, type Numbers, RawJson, parseJson, stringifyJson } from './json/index.js'
export { type Logger, type LogFields, type LogLevel, jsonLogger, silent } from './log.js'
export type { StandardSchema } from './schema.js'
export type { Stored } from './stored.js'
export {
  type Action,
  type ActionCall,
  type ActionEntity,
  type AnyWorkflow,
  type Call,
  type InputOf,
  type OutputOf,
  Rejected,
  type Task,
  type Workflow,
  type WorkflowOptions,
  action,
  rejected,
  task,
  workflow,
} from './workflow.js'
export * from './client/index.js'
export * from './worker/index.js'
