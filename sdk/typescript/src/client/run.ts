import { Failure } from '../failure.js'
import { type Numbers, RawJson, parseEnvelope, parseJson } from '../json/index.js'
import { type Duration, parseDuration } from '../duration.js'
import type { Api } from './api.js'
import { HapaxError } from './problem.js'
import type { FailureView, LedgerEntryView, RunStatus, RunView, StepView } from './views.js'

/** Longest that one request waits for a result, in seconds. */
const LONGEST_WAIT = 30

/** The run failed, or was cancelled. */
export class RunFailed extends Failure {
  constructor(
    readonly runId: string,
    readonly status: RunStatus,
    failure: FailureView | undefined,
  ) {
    const told = failure ?? { class: 'permanent', message: `the run is ${status}` }
    super(told.class, told.message, told.code === undefined ? {} : { code: told.code })
    this.name = 'RunFailed'
  }
}

/** Options of the wait for a result. */
export interface ResultOptions {
  /** How long to wait. Without end by default. Then this throws {@link HapaxError} with the code `timed_out`. */
  timeout?: Duration
  signal?: AbortSignal
}

/** Guard for a command: it is refused if the run has moved on. */
export interface CommandOptions {
  /** Version of the run that you saw. */
  ifVersion?: number
}

/** One run. */
export class Run<Output = unknown> {
  constructor(
    private readonly api: Api,
    readonly id: string,
    private readonly numbers: Numbers,
  ) {}

  /** Waits for the end of the run, and gives its output. Throws {@link RunFailed} if it did not complete. */
  async result(options: ResultOptions = {}): Promise<Output> {
    return parseJson(await this.rawResult(options), this.numbers) as Output
  }

  /** Like {@link result}, byte for byte. */
  async rawResult({ timeout, signal }: ResultOptions = {}): Promise<string> {
    const end = timeout === undefined ? Infinity : Date.now() + parseDuration(timeout)
    for (;;) {
      const left = Math.max(0, (end - Date.now()) / 1000)
      const wait = Math.min(LONGEST_WAIT, Math.ceil(left))
      const answer = await this.api.get(`${this.path}/result`, { headers: { prefer: `wait=${wait}` }, wait, signal })
      const result = parseEnvelope(answer.text, RAW) as { status: RunStatus; output?: RawJson; failure?: FailureView }
      if (result.status === 'COMPLETED') return result.output?.text ?? 'null'
      if (result.status === 'FAILED' || result.status === 'CANCELLED') throw new RunFailed(this.id, result.status, result.failure)
      if (Date.now() >= end) {
        throw new HapaxError({ code: 'timed_out', detail: `run ${this.id} is still ${result.status}`, status: 0, retryable: true })
      }
    }
  }

  /** The run as it stands. */
  async get(): Promise<RunView> {
    return (await this.detail()).run
  }

  /** The run and its steps. */
  async detail(): Promise<{ run: RunView; steps: StepView[] }> {
    return this.api.read(this.path)
  }

  /** Sends a signal. With an `id` it counts once, however often it is sent. */
  async signal(name: string, value?: unknown, options: { id?: string } = {}): Promise<{ stored: boolean }> {
    return this.api.post(`${this.path}/signals`, { name, value: value ?? null, signalId: options.id })
  }

  /** Cancels the run. Its compensations run. */
  cancel(reason?: string, options: CommandOptions & { descendants?: boolean } = {}): Promise<RunView> {
    return this.api.post(`${this.path}/cancel`, { reason, descendants: options.descendants }, guard(options))
  }

  /** Pauses the run before its next effect. */
  pause(reason?: string, options: CommandOptions = {}): Promise<RunView> {
    return this.api.post(`${this.path}/pause`, { reason }, guard(options))
  }

  /** Lets a paused run go on. */
  resume(reason?: string, options: CommandOptions = {}): Promise<RunView> {
    return this.api.post(`${this.path}/resume`, { reason }, guard(options))
  }

  /** Runs a failed run again, from the step that failed or from another. */
  retry(options: CommandOptions & { fromStep?: string; reason?: string; repeatEffects?: string[] } = {}): Promise<RunView> {
    const { fromStep, reason, repeatEffects } = options
    return this.api.post(`${this.path}/retry`, { fromStep, reason, repeatEffects }, guard(options))
  }

  /** Every effect of the run, and every attempt at it. */
  async ledger(): Promise<LedgerEntryView[]> {
    const page = await this.api.read<{ items: LedgerEntryView[] }>(`${this.path}/ledger`)
    return page.items
  }

  private get path(): string {
    return `/api/v1/workflow-runs/${encodeURIComponent(this.id)}`
  }
}

const RAW = new Set(['output'])

export function guard({ ifVersion }: CommandOptions): Record<string, string> {
  return ifVersion === undefined ? {} : { 'if-match': `"${ifVersion}"` }
}
