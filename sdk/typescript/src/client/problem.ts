/** A refusal, or a failure to reach the server. `code` is stable; every code is explained at `/errors/{code}` of the server. */
export class HapaxError extends Error {
  /** Stable code, such as `idempotency_key_conflict`. */
  readonly code: string
  /** HTTP status; 0 if there was no answer. */
  readonly status: number
  /** True if the same request may be sent again. */
  readonly retryable: boolean
  /** How long to wait before, as text, if the server says so. */
  readonly retryAfter: string | undefined
  /** The whole problem document. */
  readonly problem: Readonly<Record<string, unknown>>

  constructor(problem: Readonly<Record<string, unknown>>, cause?: unknown) {
    const text = (field: string) => (typeof problem[field] === 'string' ? problem[field] : undefined)
    super(text('detail') ?? text('title') ?? 'the request failed', cause === undefined ? undefined : { cause })
    this.name = 'HapaxError'
    this.code = text('code') ?? 'unknown'
    this.status = typeof problem.status === 'number' ? problem.status : 0
    this.retryable = problem.retryable === true
    this.retryAfter = text('retryAfter')
    this.problem = problem
  }
}

/** The error for an answer that is no success. */
export function problemOf(status: number, text: string): HapaxError {
  let problem: Record<string, unknown> = {}
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === 'object' && parsed !== null) problem = parsed as Record<string, unknown>
  } catch {
    // Not from the server itself, but from a proxy in between.
  }
  const retryable = status === 429 || status === 502 || status === 503 || status === 504
  return new HapaxError({ code: `http_${status}`, title: `the server answered ${status}`, retryable, ...problem, status })
}

/** The error for a request without an answer. */
export function noAnswer(url: string, cause: unknown): HapaxError {
  const why = cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : String(cause)
  return new HapaxError({ code: 'no_answer', detail: `no answer from ${url}: ${why}`, status: 0, retryable: true }, cause)
}
