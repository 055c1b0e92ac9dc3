export { type Attempt, type ProbeAnswer, type StepCode, cannotTell, didNotHappen, happened } from './attempt.js'
export { Ctx, type DurablePromise, type Racer, type Selected, rawJson } from './context.js'
export {
  type AttemptEnded,
  type Begin,
  Machine,
  type MachineCode,
  type MachineEnvironment,
  type Turn,
} from './machine.js'
export type * from './messages.js'
export type {
  AwaitPromiseOptions,
  ChildOptions,
  PromiseOptions,
  RetryPolicy,
  SignalOptions,
  StepOptions,
} from './options.js'
export { settled } from './settled.js'
export { codeOf } from '../workflow.js'
