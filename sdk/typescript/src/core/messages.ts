import type { RawJson } from '../json/index.js'
import type { WireFailure } from '../failure.js'

/** A record of a run's log. */
export interface LogRecord {
  id: string
  kind: string
  status: string
  output?: RawJson
  failure?: WireFailure
}

/** Call the function from the top. */
export interface ActivateMessage {
  type: 'activate'
  run: string
  activation: string
  workflow: string
  version: number
  fence: number
  keyPrefix?: string
  workspace?: string
  input?: RawJson
  log?: LogRecord[]
  logMore?: boolean
  now?: string
  trace?: string
}

/** What an attempt does. */
export type AttemptKind = 'effect' | 'probe' | 'undo'

/** Begin an attempt of an operation. */
export interface AttemptMessage {
  type: 'attempt'
  run: string
  activation: string
  op: number
  id?: string
  do: AttemptKind
  attempt: number
  key: string
  fence: number
  timeout?: string
  output?: RawJson
}

/** An operation has an outcome. */
export interface ResolvedMessage {
  type: 'resolved'
  run: string
  activation: string
  op: number
  output?: RawJson
  failure?: WireFailure
}

/** Stop this attempt if you can. */
export interface AbortMessage {
  type: 'abort'
  run: string
  activation: string
  op: number
  attempt?: number
  why?: string
}

/** Stop this call if you can: nobody waits for it any more. */
export interface AbortCallMessage {
  type: 'abort'
  call: string
  why?: string
}

/** The code gets no more outcomes. */
export interface StopMessage {
  type: 'stop'
  run: string
  activation: string
  reason: string
}

/** Forget the function. */
export interface DropMessage {
  type: 'drop'
  run: string
  activation: string
  why: string
  problem?: { code?: string; detail?: string }
}

/** A message for a run that the worker knows. */
export type RunMessage = AttemptMessage | ResolvedMessage | AbortMessage | StopMessage | DropMessage

/** A step of a document calls a task. */
export interface TaskMessage {
  type: 'task'
  call: string
  name: string
  input?: RawJson
  key: string
  attempt: number
  fence: number
  timeout?: string
  run?: string
  trace?: string
}

/** A step of an entity workflow calls an action. */
export interface ActionMessage {
  type: 'action'
  call: string
  name: string
  entity: { type: string; id: string; status: string; data?: RawJson; version?: number }
  step: string
  requester?: string
  input?: RawJson
  key: string
  attempt: number
  fence: number
  timeout?: string
  trace?: string
}

/** A message of the server. */
export type ServerMessage = ActivateMessage | RunMessage | AbortCallMessage | TaskMessage | ActionMessage

/** What became of an attempt. */
export type AttemptOutcome =
  | { output: RawJson }
  | { failure: WireFailure }
  | { answer: 'happened'; output: RawJson }
  | { answer: 'did_not_happen' | 'unknown' }

/** Fields of a retry policy, as they are sent. */
export interface WireRetry {
  for?: string
  maxAttempts?: number
  first?: string
  factor?: number
  cap?: string
  onExhausted?: string
}

/** An operation that the code asks for. */
export type OperationItem = { op: number; scope?: number } & (
  | {
      do: 'step'
      name: string
      retry?: WireRetry
      timeout?: string
      claimed?: boolean
      probe?: true
      probeTimeout?: string
      probeSettle?: string
      onDoubt?: 'hold' | 'retry' | 'fail'
      rejectsStaleFences?: boolean
      nonIdempotent?: boolean
      compensate?: true
      compensateRetry?: WireRetry
    }
  | { do: 'promise'; name: string; idempotencyKey?: string; idempotencyKeyTtlSeconds?: number; timeout?: string }
  | { do: 'awaitPromise'; id: string; timeout?: string }
  | { do: 'signal'; name: string; as?: string; timeout?: string }
  | { do: 'sleep'; name?: string; for?: string; until?: string }
  | { do: 'child'; workflow: string; input: RawJson; as?: string; onClose?: 'cancel' | 'abandon' }
  | { do: 'afterEffect'; target: string; body: RawJson }
  | { do: 'value'; name: string; value: RawJson }
  | { do: 'scope' }
  | { do: 'shield' }
)

/** What the code did, in its order. */
export type Item =
  | OperationItem
  | { took: number }
  | ({ outcome: number; attempt: number; do?: 'probe' | 'undo' } & AttemptOutcome)
  | { abandon: number }
  | { closeScope: number; ok: true }
  | { closeScope: number; failure: WireFailure }
  | { return: RawJson }
  | { throw: WireFailure }
  | { continueAsNew: RawJson }
  | { evicted: true }
  | { violation: string }
