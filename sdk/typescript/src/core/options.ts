import { type Duration, formatDuration } from '../duration.js'
import type { StandardSchema } from '../schema.js'
import type { Stored } from '../stored.js'
import type { Attempt, ProbeAnswer } from './attempt.js'
import type { OperationItem, WireRetry } from './messages.js'
import type { Unnumbered } from './machine.js'

/** How often, and how long, something is tried. */
export interface RetryPolicy {
  /** How long to try. */
  for?: Duration
  /** How many attempts at most. */
  maxAttempts?: number
  /** Wait before the second attempt. */
  first?: Duration
  /** What each further wait is multiplied with. */
  factor?: number
  /** Longest wait. */
  cap?: Duration
  /** What happens when all attempts are used up: the step fails, or the run pauses until a person resumes it. */
  onExhausted?: 'fail' | 'pause'
}

/** Options of a step. */
export interface StepOptions<T> {
  /** How often to try. Failures of the class `permanent` are not tried again. */
  retry?: RetryPolicy
  /** How long one attempt may take. Its signal aborts then. */
  timeout?: Duration
  /** Write a claim before the effect begins. After a crash it is never run again by itself: it is in doubt, or probed. */
  claimed?: boolean
  /** Asks the provider whether the effect of `attempt.key` happened. */
  probe?: (attempt: Attempt) => ProbeAnswer<T> | Promise<ProbeAnswer<T>>
  /** How long a probe may take. */
  probeTimeout?: Duration
  /** How long a provider may still work on a request that was given up. Before, "did not happen" does not count. */
  probeSettle?: Duration
  /** What becomes of a doubt: people decide, it is run again (it may happen twice), or the step fails with `in_doubt`. */
  onDoubt?: 'hold' | 'retry' | 'fail'
  /** The provider rejects a fence that is lower than one it has seen, so nobody has to wait after a takeover. */
  rejectsStaleFences?: boolean
  /** The effect happens anew each time it is run. It is refused unless it is claimed. */
  nonIdempotent?: boolean
  /** Undoes the effect if the run, or the scope around the step, fails or is cancelled. */
  compensate?: (output: Stored<T>, attempt: Attempt) => unknown
  /** How often to try the compensation. */
  compensateRetry?: RetryPolicy
}

/** Options of a promise of the run. */
export interface PromiseOptions<T = unknown> {
  /** Business key, such as the provider's id of a charge. Whoever knows it can settle the promise. */
  key?: string
  /** How long the key finds the promise after it is settled, in seconds. */
  keyTtlSeconds?: number
  /** How long to wait. The failure then has the code `timed_out`. */
  timeout?: Duration
  /** Checks the value. */
  schema?: StandardSchema<unknown, T>
}

/** Options of the wait for a promise that belongs to no run. */
export interface AwaitPromiseOptions<T = unknown> {
  /** How long to wait. The failure then has the code `timed_out`. */
  timeout?: Duration
  /** Checks the value. */
  schema?: StandardSchema<unknown, T>
}

/** Options of the wait for a signal. */
export interface SignalOptions<T = unknown> {
  /** Name of the step, if not that of the signal. */
  as?: string
  /** How long to wait. The failure then has the code `timed_out`. */
  timeout?: Duration
  /** Checks the payload. */
  schema?: StandardSchema<unknown, T>
}

/** Options of a child run. */
export interface ChildOptions {
  /** Name of the step, if not that of the workflow. */
  as?: string
  /** What becomes of the child if this run ends first. */
  onClose?: 'cancel' | 'abandon'
}

/** Drops fields that are undefined. */
export function given<T extends object>(fields: T): { [Key in keyof T]: Exclude<T[Key], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [Key in keyof T]: Exclude<T[Key], undefined> }
}

/** A duration to send, if there is one. */
export function span(duration: Duration | undefined): string | undefined {
  return duration === undefined ? undefined : formatDuration(duration)
}

function wireRetry(retry: RetryPolicy | undefined): WireRetry | undefined {
  if (retry === undefined) return undefined
  const { for: whole, maxAttempts, first, factor, cap, onExhausted } = retry
  return given({ for: span(whole), maxAttempts, first: span(first), factor, cap: span(cap), onExhausted })
}

/** A step as it is asked for. */
export function stepItem<T>(name: string, options: StepOptions<T>): Unnumbered<OperationItem> {
  return given({
    do: 'step' as const,
    name,
    retry: wireRetry(options.retry),
    timeout: span(options.timeout),
    claimed: options.claimed,
    probe: options.probe ? (true as const) : undefined,
    probeTimeout: span(options.probeTimeout),
    probeSettle: span(options.probeSettle),
    onDoubt: options.onDoubt,
    rejectsStaleFences: options.rejectsStaleFences,
    nonIdempotent: options.nonIdempotent,
    compensate: options.compensate ? (true as const) : undefined,
    compensateRetry: wireRetry(options.compensateRetry),
  })
}
