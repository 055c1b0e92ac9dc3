import type { Begin, MachineCode, MachineEnvironment, Turn } from '../core/machine.js'
import { Machine } from '../core/machine.js'
import type { ActivateMessage, AttemptOutcome, Item, LogRecord, RunMessage } from '../core/messages.js'
import { type RawJson, stringifyJson } from '../json/index.js'

/** A further page of the log of `activate`. */
export interface LogMessage {
  type: 'log'
  log: LogRecord[]
}

/** A message of a run, as it is pushed. */
export type PushedMessage = ActivateMessage | LogMessage | RunMessage

/** What was said before: the messages, and what this function answered. */
export interface PushedTurn {
  messages: PushedMessage[]
  items: Item[]
}

/** Begins an attempt. The promise never rejects. */
export type RunAttempt = (begin: Begin) => Promise<AttemptOutcome>

/** Thrown if the code does not do again what it did before. */
class Differs extends Error {}

/**
 * The code of one activation, which may have begun in another process: it is brought to where it was, and then told what is
 * new.
 */
export class Conversation {
  private items: Item[] = []
  private begins: Begin[] = []

  private constructor(
    private readonly machine: Machine,
    private readonly onAbort: (op: number) => void,
  ) {}

  /** Plays `turns` again, then carries out `messages`. Returns what is new. */
  static async carryOn(
    turns: readonly PushedTurn[],
    messages: readonly PushedMessage[],
    code: MachineCode,
    environment: MachineEnvironment,
    run: RunAttempt,
    onAbort: (op: number) => void,
  ): Promise<Item[]> {
    const activate = activateOf(turns, messages)
    const first = turns[0]?.messages ?? messages
    const log = [...(activate.log ?? []), ...first.flatMap(message => (message.type === 'log' ? message.log : []))]
    const machine = new Machine({ ...activate, log }, code, { ...environment, values: valuesOf(turns) })
    const conversation = new Conversation(machine, onAbort)
    try {
      for (const turn of turns) await conversation.playAgain(turn)
    } catch (error) {
      if (!(error instanceof Differs)) throw error
      return [{ violation: error.message }]
    }
    await conversation.hear(messages)
    await conversation.attempt(run)
    return conversation.items
  }

  private async playAgain(turn: PushedTurn): Promise<void> {
    await this.hear(turn.messages)
    this.begins = []
    for (const item of turn.items) {
      if (!('outcome' in item)) continue
      const { outcome: op, attempt, do: kind = 'effect', ...outcome } = item
      this.add(await this.machine.attemptEnded({ op, attempt, do: kind, outcome }))
    }
    const [before, now] = [turn.items.map(canonical), this.items.map(canonical)]
    const place = before.findIndex((text, index) => text !== now[index])
    const differs = place >= 0 ? place : now.length > before.length ? before.length : -1
    if (differs >= 0) {
      throw new Differs(`the code did ${before[differs] ?? 'nothing more'} before, and now does ${now[differs] ?? 'nothing more'}`)
    }
    this.items = []
  }

  private async hear(messages: readonly PushedMessage[]): Promise<void> {
    for (const message of messages) {
      if (message.type === 'log') continue
      this.add(message.type === 'activate' ? await this.machine.start() : await this.machine.deliver(message))
    }
  }

  /** Runs what begins, all at once. The machine hears of one end after the other. */
  private async attempt(run: RunAttempt): Promise<void> {
    let last: Promise<void> = Promise.resolve()
    const running = this.begins.map(async begin => {
      const outcome = await run(begin)
      last = last.then(async () => {
        const { op, message } = begin
        this.add(await this.machine.attemptEnded({ op, attempt: message.attempt, do: begin.do, outcome }))
      })
      await last
    })
    await Promise.all(running)
  }

  private add(turn: Turn): void {
    this.items.push(...turn.items)
    this.begins.push(...turn.begin)
    for (const op of turn.abort) this.onAbort(op)
  }
}

export function activateOf(turns: readonly PushedTurn[], messages: readonly PushedMessage[]): ActivateMessage {
  const first = (turns[0]?.messages ?? messages)[0]
  if (first?.type !== 'activate') throw new TypeError('the first message about a run is `activate`')
  return first
}

/** Values that the code made for itself, by operation. */
function valuesOf(turns: readonly PushedTurn[]): Map<number, RawJson> {
  const items = turns.flatMap(turn => turn.items)
  return new Map(items.flatMap(item => ('do' in item && item.do === 'value' ? [[item.op, item.value] as const] : [])))
}

/** Text that is the same for the same item, whatever the order of its members. */
function canonical(item: Item): string {
  const sorted = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(sorted)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, member]) => [name, sorted(member)]))
  }
  return JSON.stringify(sorted(JSON.parse(stringifyJson(item))))
}
