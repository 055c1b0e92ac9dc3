import type { StepCode } from './attempt.js'
import type { Branch } from './branch.js'
import type { AttemptKind } from './messages.js'

/** Why an operation has no outcome yet, or no longer waits for one. */
export type OperationState = 'open' | 'done' | 'abandoned'

/** An operation that the code asked for. */
export class Operation {
  state: OperationState = 'open'
  readonly promise: Promise<unknown>
  resolve!: (value: unknown) => void
  reject!: (error: unknown) => void
  /** The code of a step. */
  step: StepCode | undefined
  /** Whether the code may go on by itself when an attempt succeeds. */
  goesOnByItself = false
  /** The attempt that runs, if one does. */
  running: { readonly attempt: number; readonly do: AttemptKind } | undefined
  /** Number of the last attempt that was told to stop. */
  aborted: number | undefined

  constructor(
    readonly op: number,
    readonly id: string,
    readonly branch: Branch,
  ) {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
    // An operation that nobody awaits may fail without ending the process.
    this.promise.catch(() => undefined)
  }
}
