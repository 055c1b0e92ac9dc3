import type { OperationItem, ServerMessage } from '../core/messages.js'
import type { WireFailure } from '../failure.js'
import type { RawJson } from '../json/index.js'

export type StepItem = OperationItem & { do: 'step' }
export type StepStatus = 'PENDING' | 'RUNNING' | 'WAITING' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'IN_DOUBT'

/** An operation of a run, as it is stored. */
export interface StoredStep {
  readonly id: string
  readonly kind: string
  readonly item: OperationItem
  status: StepStatus
  output?: RawJson
  failure?: WireFailure
  /** Place among the outcomes that the code received. */
  order?: number
  /** When the next attempt begins, or the wait ends. */
  dueAt?: number
  /** What the next attempt does. */
  next: 'effect' | 'probe'
  attempts: number
  probes: number
  denials: number
  /** The run of a child. */
  child?: string
  undo?: { status: 'PENDING' | 'COMPLETED' | 'IN_DOUBT'; attempts: number; dueAt: number }
}

/** What the server knows of one activation. It is lost with its session. */
export interface Activation {
  readonly id: string
  readonly session: string
  readonly ordinals: Map<string, number>
  readonly operations: Map<number, StoredStep>
  readonly scopes: Map<number, { parent: number | undefined; failure?: WireFailure; isOver: boolean }>
  /** Attempts that the worker was told to begin, by operation. */
  readonly inFlight: Map<number, { do: 'effect' | 'probe' | 'undo'; attempt: number }>
  /** The outcome that the code was given and has not confirmed. */
  told: number | undefined
  /** Operations whose outcome the code received. */
  readonly taken: Set<number>
  /** True once the first batch has come. */
  hasAnswered: boolean
  isStopped: boolean
  outbox: ServerMessage[]
  /** How the code ended. */
  end?: { throw: WireFailure } | { return: RawJson } | { continueAsNew: RawJson }
}

/** A run in memory. */
export interface MemoryRun {
  readonly id: string
  readonly workflow: string
  readonly version: number
  input: RawJson
  generation: number
  fence: number
  status: 'OPEN' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'PAUSED'
  output?: RawJson
  failure?: WireFailure
  violation?: string
  steps: Map<string, StoredStep>
  taken: number
  signals: { name: string; value: RawJson }[]
  activation: Activation | undefined
  activations: number
  /** True if it should be activated even though nothing has arrived for it. */
  isDue: boolean
  parent?: { run: string; step: string }
  asked?: 'cancel'
}

/** Whether the outcome of a step is known. */
export function hasOutcome(step: StoredStep): boolean {
  return step.status === 'COMPLETED' || step.status === 'FAILED'
}

/** Whether the step is done with: it has an outcome, or was abandoned. */
export function isOver(step: StoredStep): boolean {
  return hasOutcome(step) || step.status === 'CANCELLED'
}

/** Name of a step before it gets its ordinal. */
export function nameOf(item: OperationItem): string {
  switch (item.do) {
    case 'step':
    case 'promise':
    case 'value':
      return item.name
    case 'awaitPromise':
      return 'promise'
    case 'signal':
      return item.as ?? item.name
    case 'sleep':
      return item.name ?? 'sleep'
    case 'child':
      return item.as ?? item.workflow.split('@')[0] ?? item.workflow
    case 'afterEffect':
      return item.target
    case 'scope':
    case 'shield':
      return '~scope'
  }
}
