import { brand } from './brand.js'
import { RawJson, isRawJson, parseJson, stringifyJson } from './json/index.js'
import { type Duration, formatDuration } from './duration.js'

/**
 * What is known about an effect that failed: `permanent` and `retryable` mean that it did not happen; `unknown` that it may have.
 */
export type FailureClass = 'permanent' | 'retryable' | 'unknown'

/** A failure as it is sent and stored. */
export interface WireFailure {
  message: string
  class: FailureClass
  code?: string
  retryAfter?: string
  details?: RawJson
}

/** Options of a failure. */
export interface FailureOptions {
  /** A stable word for programs. */
  code?: string
  /** Anything that JSON can hold. */
  details?: unknown
  /** What caused it. It is not stored. */
  cause?: unknown
}

/**
 * A failure of a step, a wait or a run. Throw one from a step to say what is known: any other error means that the effect may
 * have happened.
 *
 * ```ts
 * if (response.status === 402) throw Failure.permanent("card declined", { code: "declined" })
 * if (response.status === 429) throw Failure.retryable("busy", { retryAfter: "2s" })
 * ```
 */
export class Failure extends Error {
  readonly class: FailureClass
  readonly code: string | undefined
  readonly details: unknown
  readonly retryAfter: string | undefined

  constructor(failureClass: FailureClass, message: string, options: FailureOptions & { retryAfter?: Duration } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'Failure'
    this.class = failureClass
    this.code = options.code
    this.details = options.details
    this.retryAfter = options.retryAfter === undefined ? undefined : formatDuration(options.retryAfter)
  }

  /** It did not happen, and trying again is of no use. */
  static permanent(message: string, options?: FailureOptions): Failure {
    return new Failure('permanent', message, options)
  }

  /** It did not happen, and may be tried again. */
  static retryable(message: string, options?: FailureOptions & { retryAfter?: Duration }): Failure {
    return new Failure('retryable', message, options)
  }

  /** It may have happened. */
  static unknown(message: string, options?: FailureOptions): Failure {
    return new Failure('unknown', message, options)
  }

  /** The failure that an error stands for. An error that is none says nothing about the effect: it is `unknown`. */
  static from(error: unknown): Failure {
    if (isFailure(error)) return error
    const message = error instanceof Error ? error.message || error.name : String(error)
    return new Failure('unknown', message, { cause: error })
  }
}

/** Whether an error is a {@link Failure}, of this or another copy of the package. */
export const isFailure = brand(Failure, 'Failure')

/** The failure to send for an error. */
export function toWire(error: unknown): WireFailure {
  const failure = Failure.from(error)
  const wire: WireFailure = { message: failure.message, class: failure.class }
  if (failure.code !== undefined) wire.code = failure.code
  if (failure.retryAfter !== undefined) wire.retryAfter = failure.retryAfter
  if (failure.details !== undefined) wire.details = new RawJson(stringifyJson(failure.details))
  return wire
}

/** The failure that was sent. */
export function fromWire(wire: WireFailure): Failure {
  const { message, code, details, retryAfter } = wire
  return new Failure(wire.class, message, {
    ...(code === undefined ? {} : { code }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(details === undefined ? {} : { details: isRawJson(details) ? parseJson(details.text) : details }),
  })
}
