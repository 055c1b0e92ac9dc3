import { type Duration, formatDuration, parseDuration } from '../duration.js'
import { type Numbers } from '../json/index.js'
import { validate } from '../schema.js'
import { type AnyWorkflow, type InputOf, type OutputOf, workflowName } from '../workflow.js'
import { Api } from './api.js'
import { Doubts } from './doubts.js'
import { Entities } from './entities.js'
import { Promises } from './promises.js'
import { Run } from './run.js'
import { traceHeaders } from '../telemetry.js'
import { type ConnectionOptions, Transport } from './transport.js'
import type { RunStatus, RunView } from './views.js'

/** Options of a client. */
export interface HapaxOptions extends ConnectionOptions {
  /** What becomes of numbers that JavaScript cannot hold; `bigint` by default. */
  numbers?: Numbers
  /** How long to send a request again while the server is busy or out of reach; 10 seconds by default. */
  retryFor?: Duration
}

/** Options of a start. */
export interface StartOptions {
  /** Business key: the same key names the same run. */
  key?: string
  /** Business object that the run is about; one open run each. */
  subject?: string
  /** When to begin. */
  delay?: Duration
  /** How long the run may take. */
  timeout?: Duration
  priority?: 'low' | 'normal' | 'high'
}

/** A run, and whether this call made it. */
export interface Started<Output> {
  run: Run<Output>
  created: boolean
}

/**
 * A client of a Hapax server.
 *
 * ```ts
 * const hapax = new Hapax()
 * const { run, created } = await hapax.start(order, { id: "4711", cents: 1999 }, { key: "order-4711" })
 * console.log(created, await run.result())
 * ```
 */
export class Hapax {
  readonly transport: Transport
  readonly promises: Promises
  readonly entities: Entities
  readonly doubts: Doubts
  private readonly api: Api
  private readonly numbers: Numbers

  constructor(options: HapaxOptions = {}) {
    this.numbers = options.numbers ?? 'bigint'
    this.transport = new Transport(options)
    this.api = new Api(this.transport, this.numbers, parseDuration(options.retryFor ?? '10s'))
    this.promises = new Promises(this.api)
    this.entities = new Entities(this.api)
    this.doubts = new Doubts(this.api)
  }

  /**
   * Starts a run, once per key: the second call with the same key and input finds the run of the first. Another input under the
   * same key is refused with `idempotency_key_conflict`.
   */
  async start<W extends AnyWorkflow>(workflow: W, input: InputOf<W>, options?: StartOptions): Promise<Started<OutputOf<W>>>
  async start<Output = unknown>(workflow: string, input?: unknown, options?: StartOptions): Promise<Started<Output>>
  async start(workflow: AnyWorkflow | string, input?: unknown, options: StartOptions = {}): Promise<Started<unknown>> {
    if (typeof workflow !== 'string' && workflow.input) {
      // The server stores the input as it was given. The worker applies the schema again for the code.
      await validate(workflow.input, input, `the input of ${workflow.name}`)
    }
    const { key, subject, delay, timeout, priority } = options
    const name = typeof workflow === 'string' ? workflow : workflowName(workflow).selector
    const body = {
      workflow: name,
      input,
      idempotencyKey: key,
      subject,
      priority,
      delay: delay === undefined ? undefined : formatDuration(delay),
      timeout: timeout === undefined ? undefined : formatDuration(timeout),
    }
    const headers = await traceHeaders()
    const { run, created } = await this.api.post<{ run: RunView; created: boolean }>('/api/v1/workflow-runs', body, headers)
    return { run: this.run(run.id, typeof workflow === 'string' ? this.numbers : workflow.numbers), created }
  }

  /** A run by its id. */
  run<Output = unknown>(id: string, numbers: Numbers = this.numbers): Run<Output> {
    return new Run<Output>(this.api, id, numbers)
  }

  /** Waits for a run's output. */
  result<Output = unknown>(id: string, options?: { timeout?: Duration; signal?: AbortSignal }): Promise<Output> {
    return this.run<Output>(id).result(options)
  }

  /** A run as it stands. */
  get(id: string): Promise<RunView> {
    return this.run(id).get()
  }

  /** Runs, newest first. */
  list(filter: { status?: RunStatus; workflow?: string; needsAttention?: boolean } = {}): AsyncGenerator<RunView> {
    return this.api.pages<RunView>('/api/v1/workflow-runs', filter)
  }

  /** Uploads a workflow document. */
  uploadDefinition(document: unknown): Promise<{ id: string; name: string; version: number }> {
    return this.api.post('/api/v1/workflow-definitions', document)
  }

  /** Sends any request of the HTTP API. Throws `HapaxError` unless it succeeds. */
  async request<T = unknown>(method: string, path: string, body?: unknown): Promise<T> {
    return this.api.decode<T>((await this.api.send(method, path, body)).text)
  }
}
