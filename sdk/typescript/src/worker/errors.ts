import { HapaxError } from '../client/problem.js'
import type { AttemptOutcome } from '../core/messages.js'
import { Failure, toWire } from '../failure.js'
import type { LogLevel } from '../log.js'
import type { Outcome } from './calls.js'

/** A promise that somebody else settles. It may fail without anybody waiting for it. */
export function deferred(): { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } {
  let resolve!: () => void
  let reject!: (error: Error) => void
  const promise = new Promise<void>((fulfil, fail) => {
    resolve = fulfil
    reject = fail
  })
  promise.catch(() => undefined)
  return { promise, resolve, reject }
}

/** Without a hold, only a success proves something. */
export function whatIsProven<T extends AttemptOutcome | Outcome>(outcome: T): T {
  if (!('failure' in outcome)) return outcome
  return { failure: toWire(Failure.unknown(outcome.failure.message, { code: 'lease_lost' })) } as T
}

/** Whether no other session would do better. */
export function isFatal(error: unknown): boolean {
  if (!(error instanceof HapaxError)) return true
  return error.status === 401 || error.status === 403 || error.code === 'session_replaced' || error.status === 400
}

/** An error, as it is logged. */
export function told(error: unknown): unknown {
  return error instanceof HapaxError ? { code: error.code, status: error.status, message: error.message } : String(error)
}

export function levelFromEnvironment(): LogLevel {
  const level = process.env.HAPAX_LOG
  return level === 'debug' || level === 'warn' || level === 'error' || level === 'off' ? level : 'info'
}
