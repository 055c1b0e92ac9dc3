import type { LogRecord } from './messages.js'

/** Kinds of the engine, by what the code asks for. */
const KINDS: Readonly<Record<string, string>> = {
  effect: 'step',
  claimed: 'step',
  transaction: 'step',
  after_effect: 'afterEffect',
  awaitPromise: 'promise',
}

/** The kind under which an operation is recorded. */
export function recordedKind(kind: string): string {
  return KINDS[kind] ?? kind
}

/** The records of a run: looked up by id when the code asks, and given to it in their order. */
export class ReplayLog {
  /** Records that the code has not asked for. */
  private readonly records = new Map<string, LogRecord>()
  /** Outcomes that the code has not been given, in their order. */
  private readonly outcomes = new Map<string, LogRecord>()

  constructor(log: readonly LogRecord[]) {
    for (const record of log) {
      // Undos belong to the server.
      if (record.id.includes('~')) continue
      this.records.set(record.id, record)
      const hasOutcome = record.status === 'COMPLETED' || record.status === 'FAILED'
      if (hasOutcome && record.kind !== 'value') this.outcomes.set(record.id, record)
    }
  }

  /** The record of an operation that the code asks for. */
  ask(id: string): LogRecord | undefined {
    const record = this.records.get(id)
    this.records.delete(id)
    return record
  }

  /** The next outcome to give to the code. */
  peek(): LogRecord | undefined {
    return this.outcomes.values().next().value
  }

  /** The code has been given this outcome, or does not wait for it. */
  use(id: string): void {
    this.outcomes.delete(id)
  }

  /** The first record that the code has not asked for. */
  firstUnasked(): LogRecord | undefined {
    return this.records.values().next().value
  }
}
