import type { ActionMessage, TaskMessage } from '../core/messages.js'
import { type WireFailure, Failure, toWire } from '../failure.js'
import { RawJson, parseJson, stringifyJson } from '../json/index.js'
import { validate } from '../schema.js'
import { type ActionEntity, type AnyAction, type AnyTask, type Call, isRejected } from '../workflow.js'
import type { RunningAttempt } from './attempts.js'

export type Outcome = { output: RawJson } | { failure: WireFailure } | { rejected: string }

/** Runs a task. It never rejects. */
export async function runTask(task: AnyTask | undefined, message: TaskMessage, attempt: RunningAttempt): Promise<Outcome> {
  return outcome(async () => {
    if (task === undefined) throw unknownName('task', message.name)
    const raw = message.input?.text ?? 'null'
    let input = parseJson(raw, task.numbers)
    if (task.input) input = await validate(task.input, input, `the input of task ${task.name}`)
    return task.run(input, callOf(attempt, raw, {})) as unknown
  })
}

/** Runs an action. It never rejects. */
export async function runAction(action: AnyAction | undefined, message: ActionMessage, attempt: RunningAttempt): Promise<Outcome> {
  return outcome(() => {
    if (action === undefined) throw unknownName('action', message.name)
    const raw = message.input?.text ?? 'null'
    const { type, id, status, data } = message.entity
    const entity: ActionEntity = { type, id, status, data: parseJson(data?.text ?? 'null', action.numbers) }
    const about = { step: message.step, requester: message.requester, input: parseJson(raw, action.numbers) }
    return action.run(entity, callOf(attempt, raw, about)) as unknown
  })
}

function callOf<Extra extends object>(attempt: RunningAttempt, rawInput: string, extra: Extra): Call & Extra {
  const { key, fence, traceparent } = attempt
  return {
    key,
    attempt: attempt.attempt,
    fence,
    traceparent,
    rawInput,
    get signal() {
      return attempt.signal
    },
    ensureStillHeld: () => attempt.ensureStillHeld(),
    ...extra,
  }
}

function unknownName(what: string, name: string): Failure {
  return Failure.retryable(`this worker has no ${what} ${JSON.stringify(name)}`, { code: `unknown_${what}` })
}

async function outcome(run: () => unknown): Promise<Outcome> {
  try {
    const output = await run()
    if (isRejected(output)) return { rejected: output.reason }
    return { output: new RawJson(stringifyJson(output)) }
  } catch (error) {
    return { failure: toWire(error) }
  }
}
