import type { Begin } from '../core/machine.js'
import type { ActionMessage, AttemptOutcome, TaskMessage } from '../core/messages.js'
import { type Duration, parseDuration } from '../duration.js'
import { parseEnvelope } from '../json/parse.js'
import { stringifyJson } from '../json/index.js'
import { type Logger, silent } from '../log.js'
import { openTelemetry, withinTrace } from '../telemetry.js'
import { type AnyAction, type AnyTask, type AnyWorkflow, codeOf } from '../workflow.js'
import { RunningAttempt } from '../worker/attempts.js'
import { runAction, runTask } from '../worker/calls.js'
import { Hold, HoldClock } from '../worker/clock.js'
import { Conversation, type PushedMessage, type PushedTurn, activateOf } from './conversation.js'
import { NotVerified, Verifier } from './verify.js'

/** Options of a push handler. */
export interface PushOptions {
  /** Secret of the push worker; several while one replaces another. */
  secret: string | readonly string[]
  /** Workflows that this function runs. */
  workflows?: readonly AnyWorkflow[]
  /** Tasks that steps of documents may call. */
  tasks?: readonly AnyTask[]
  /** Actions that steps of entity workflows may call. */
  actions?: readonly AnyAction[]
  /**
   * Notes the id of a request. Returns true the first time. The default remembers ids in this process. If several processes
   * answer, and steps are `claimed`, keep them where all of them look, such as `SET id 1 NX EX 600` of Redis.
   */
  claim?: (id: string) => boolean | Promise<boolean>
  /** How old a request may be; 5 minutes by default. */
  tolerance?: Duration
  /** The time, in milliseconds since 1970. */
  now?: () => number
  /** Where logs go; nowhere by default. */
  log?: Logger
}

/** Answers the requests of the server. */
export type PushHandler = (request: Request) => Promise<Response>

/** The body of a request. */
interface Pushed {
  holdFor: Duration
  notAfter: string
  turns: PushedTurn[]
  messages: (PushedMessage | TaskMessage | ActionMessage)[]
}

const RAW = new Set(['input', 'output', 'data', 'details', 'value', 'return', 'continueAsNew', 'body'])
const TOLERANCE = 300_000
const MAX_REMEMBERED = 10_000

/**
 * A handler for functions that cannot poll, such as serverless ones: the server sends it work, and reads what it did from the
 * response. It takes and returns what `fetch` does, as Deno, Bun, Cloudflare, Vercel and Lambda adapters do.
 *
 * ```ts
 * export default { fetch: pushHandler({ secret: process.env.HAPAX_PUSH_SECRET, workflows: [order] }) }
 * ```
 */
export function pushHandler(options: PushOptions): PushHandler {
  const functions = new Functions(options)
  return request => functions.answer(request)
}

/** An answer other than 200. */
class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

class Functions {
  private readonly workflows: ReadonlyMap<string, AnyWorkflow>
  private readonly tasks: ReadonlyMap<string, AnyTask>
  private readonly actions: ReadonlyMap<string, AnyAction>
  private readonly verifier: Verifier
  private readonly claim: (id: string) => boolean | Promise<boolean>
  private readonly now: () => number
  private readonly log: Logger

  constructor(options: PushOptions) {
    this.workflows = new Map((options.workflows ?? []).map(workflow => [`${workflow.name}@${workflow.version}`, workflow]))
    this.tasks = new Map((options.tasks ?? []).map(task => [task.name, task]))
    this.actions = new Map((options.actions ?? []).map(action => [action.name, action]))
    this.now = options.now ?? (() => Date.now())
    this.log = options.log ?? silent
    this.claim = options.claim ?? remembered()
    const secrets = typeof options.secret === 'string' ? [options.secret] : options.secret
    this.verifier = new Verifier(secrets, options.tolerance === undefined ? TOLERANCE : parseDuration(options.tolerance), this.now)
  }

  async answer(request: Request): Promise<Response> {
    try {
      if (request.method !== 'POST') throw new Refused(405, 'send a POST')
      const text = await request.text()
      const id = await this.verifier.verify(request.headers, text)
      const work = parseEnvelope(text, RAW) as Pushed
      const body = await this.carryOut(id, work)
      return new Response(stringifyJson(body), { headers: { 'content-type': 'application/json' } })
    } catch (error) {
      const status = error instanceof Refused ? error.status : error instanceof NotVerified ? 401 : 500
      const message = error instanceof Error ? error.message : String(error)
      this.log.warn('a pushed request was refused', { status, error: message })
      return new Response(stringifyJson({ error: message }), { status, headers: { 'content-type': 'application/json' } })
    }
  }

  private async carryOut(id: string, work: Pushed): Promise<object> {
    const left = Math.min(parseDuration(work.holdFor), Date.parse(work.notAfter) - this.now())
    // Nothing has begun, so the server may send it again.
    if (!(left > 0)) throw new Refused(410, 'the request is late: effects may not begin any more')
    const [first] = work.messages
    const find = this.find(work)
    // The first delivery may still run, and only its response has the outcome.
    if (!(await this.claim(id))) throw new Refused(409, 'this request was delivered before')
    const hold = new Hold(new HoldClock(), () => undefined)
    hold.extend(hold.now(), left)
    try {
      const telemetry = await openTelemetry()
      if (first?.type === 'task' || first?.type === 'action') {
        const attempt = new RunningAttempt(first, hold, first.trace)
        const run = () => (first.type === 'task' ? runTask(this.tasks.get(first.name), first, attempt) : runAction(this.actions.get(first.name), first, attempt))
        const outcome = await withinTrace(telemetry, first.trace, run)
        attempt.end()
        return { results: [{ call: first.call, ...outcome }] }
      }
      const messages = work.messages as PushedMessage[]
      const { workflow, activate } = find ?? unreachable()
      const attempts = new Map<number, RunningAttempt>()
      const run = async (begin: Begin): Promise<AttemptOutcome> => {
        if (!hold.isHeld) return { failure: { message: 'the right to begin effects had passed', class: 'retryable', code: 'not_begun' } }
        const attempt = new RunningAttempt(begin.message, hold, activate.trace)
        attempts.set(begin.op, attempt)
        const outcome = await withinTrace(telemetry, activate.trace, () => begin.run(attempt))
        attempt.end()
        return outcome
      }
      const environment = { now: this.now, random: () => Math.random(), numbers: workflow.numbers }
      const code = await codeOf(workflow, activate.input?.text ?? 'null', this.log)
      const onAbort = (op: number) => attempts.get(op)?.abort('the server stopped it', 'aborted')
      return { items: await Conversation.carryOn(work.turns, messages, code, environment, run, onAbort) }
    } finally {
      hold.release()
    }
  }

  /** The workflow that the messages are about; undefined for a task or an action. */
  private find(work: Pushed) {
    const [first] = work.messages
    if (first?.type === 'task' || first?.type === 'action') {
      const known = first.type === 'task' ? this.tasks : this.actions
      if (!known.has(first.name)) throw new Refused(404, `this function has no ${first.type} ${first.name}`)
      return undefined
    }
    const activate = activateOf(work.turns, work.messages as PushedMessage[])
    const name = `${activate.workflow}@${activate.version}`
    const workflow = this.workflows.get(name)
    if (workflow === undefined) throw new Refused(404, `this function has no workflow ${name}`)
    return { workflow, activate }
  }
}

function unreachable(): never {
  throw new Error('a request is about a run, a task or an action')
}

/** Remembers the latest ids of this process. */
function remembered(): (id: string) => boolean {
  const ids = new Set<string>()
  return id => {
    if (ids.has(id)) return false
    ids.add(id)
    const [oldest] = ids
    if (ids.size > MAX_REMEMBERED && oldest !== undefined) ids.delete(oldest)
    return true
  }
}
