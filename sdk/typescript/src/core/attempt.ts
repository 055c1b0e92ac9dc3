/** One attempt of an effect. */
export interface Attempt {
  /** Idempotency key of the effect: the same in every attempt, and after every crash. Send it to the provider. */
  readonly key: string
  /** Number of this attempt, from 1. */
  readonly attempt: number
  /** A number that rises whenever another worker takes the run over. Send it to providers that reject lower ones. */
  readonly fence: number
  /** Aborts when the attempt is over: its time is up, the run was taken over, or the worker stops. Pass it to `fetch`. */
  readonly signal: AbortSignal
  /** W3C `traceparent` of the run, if it has one. */
  readonly traceparent: string | undefined
  /** Throws unless the run is still held. Call it right before anything leaves the process, after the last `await`. */
  ensureStillHeld(): void
}

/** What a probe found out. */
export type ProbeAnswer<T> =
  | { readonly answer: 'happened'; readonly output: T }
  | { readonly answer: 'did_not_happen' }
  | { readonly answer: 'unknown' }

/** The effect happened, with this output. */
export function happened<T>(output: T): ProbeAnswer<T> {
  return { answer: 'happened', output }
}

/** The effect did not happen. */
export const didNotHappen: ProbeAnswer<never> = { answer: 'did_not_happen' }

/** The provider cannot tell. */
export const cannotTell: ProbeAnswer<never> = { answer: 'unknown' }

/** The code of a step. */
export interface StepCode {
  /** Makes the effect. */
  effect: (attempt: Attempt) => unknown
  /** Asks the provider by key whether the effect happened. */
  probe?: ((attempt: Attempt) => unknown) | undefined
  /** Undoes the effect. */
  compensate?: ((output: unknown, attempt: Attempt) => unknown) | undefined
}
