import type { Attempt } from '../core/attempt.js'
import { parseDuration } from '../duration.js'
import { Failure } from '../failure.js'
import { type Hold, unref } from './clock.js'

/** What an attempt is told about itself. */
export interface AttemptFacts {
  key: string
  attempt: number
  fence: number
  timeout?: string | undefined
}

/** An attempt that runs in this worker. */
export class RunningAttempt implements Attempt {
  readonly key: string
  readonly attempt: number
  readonly fence: number
  /** True if its hold has passed, so that a failure proves nothing. */
  lostHold = false
  private controller: AbortController | undefined
  private reason: Failure | undefined
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    facts: AttemptFacts,
    private readonly hold: Hold,
    readonly traceparent: string | undefined,
  ) {
    this.key = facts.key
    this.attempt = facts.attempt
    this.fence = facts.fence
    if (facts.timeout !== undefined) {
      const over = () => this.abort('its time is up', 'timed_out')
      this.timer = setTimeout(over, parseDuration(facts.timeout))
      unref(this.timer)
    }
  }

  /** Made when it is first asked for, because most steps never do. */
  get signal(): AbortSignal {
    this.controller ??= new AbortController()
    if (this.reason) this.controller.abort(this.reason)
    return this.controller.signal
  }

  ensureStillHeld(): void {
    if (this.reason) throw this.reason
    if (!this.hold.isHeld) throw Failure.unknown('the attempt is over: the worker can no longer be sure that it holds the run', { code: 'lease_lost' })
  }

  abort(why: string, code: string): void {
    this.reason ??= Failure.unknown(`the attempt is over: ${why}`, { code })
    this.controller?.abort(this.reason)
  }

  end(): void {
    clearTimeout(this.timer)
  }
}
