import { Failure, toWire } from '../failure.js'
import { NULL, type Numbers, RawJson, parseJson, stringifyJson } from '../json/index.js'
import type { Attempt, ProbeAnswer, StepCode } from './attempt.js'
import type { AttemptMessage, AttemptOutcome } from './messages.js'

/** A value as it is stored. */
export function encode(value: unknown): RawJson {
  try {
    return new RawJson(stringifyJson(value))
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    throw Failure.permanent(text, { code: 'invalid', cause: error })
  }
}

/** Runs the user's code for one attempt. It never rejects. */
export async function runAttempt(
  code: StepCode,
  message: AttemptMessage,
  attempt: Attempt,
  numbers: Numbers,
): Promise<AttemptOutcome> {
  try {
    switch (message.do) {
      case 'effect':
        return { output: encodeOutput(await code.effect(attempt)) }
      case 'undo':
        await code.compensate?.(parseJson(message.output?.text ?? 'null', numbers), attempt)
        return { output: NULL }
      case 'probe':
        return probed((await code.probe?.(attempt)) as ProbeAnswer<unknown> | undefined)
    }
  } catch (error) {
    return message.do === 'probe' ? { answer: 'unknown' } : { failure: toWire(error) }
  }
}

function probed(found: ProbeAnswer<unknown> | undefined): AttemptOutcome {
  if (found?.answer === 'happened') return { answer: 'happened', output: encodeOutput(found.output) }
  return { answer: found?.answer ?? 'unknown' }
}

/** Encodes what an effect returned. If it cannot be stored, the effect happened all the same: that is no `permanent` failure. */
function encodeOutput(value: unknown): RawJson {
  try {
    return new RawJson(stringifyJson(value))
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    throw Failure.unknown(`the effect happened, but its output cannot be stored: ${text}`, { code: 'output_invalid', cause: error })
  }
}
