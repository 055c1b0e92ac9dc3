import type { FailureClass } from '../failure.js'

/** Status of a run. */
export type RunStatus = 'PENDING' | 'RUNNING' | 'WAITING' | 'PAUSED' | 'COMPLETED' | 'FAILED' | 'CANCELLED'

/** A failure, as the server shows it. */
export interface FailureView {
  class: FailureClass
  message: string
  code?: string
}

/** A run, as the server shows it. */
export interface RunView {
  id: string
  workspaceId: string
  workflow: string
  status: RunStatus
  version: number
  generation: number
  input: unknown
  output?: unknown
  failure?: FailureView
  idempotencyKey?: string
  subject?: string
  currentStepName?: string
  createdAt: string
  changedAt: string
  startedAt?: string
  closedAt?: string
  wakeAt?: string
  needsAttention?: { reason: string; detail: string; stepId?: string }
}

/** A step of a run, as the server shows it. */
export interface StepView {
  id: string
  kind: string
  status: string
  attempts: number
  startedAt: string
  endedAt?: string
  output?: unknown
  failure?: FailureView
  effectKey?: string
}

/** A promise, as the server shows it. */
export interface PromiseView {
  id: string
  status: string
  createdAt: string
  idempotencyKey?: string
  value?: unknown
  failure?: FailureView
  runId?: string
}

/** What became of a settlement. `kept` means that no promise has the key yet. */
export type Settled = { promise: PromiseView; alreadySettled: boolean; kept?: undefined } | { kept: true; until: string }

/** A business object, as the server shows it. */
export interface EntityView<Data = Record<string, unknown>> {
  type: string
  id: string
  status: string
  version: number
  data: Data
  updatedAt: string
}

/** What can be done with a business object. */
export interface AllowedAction {
  stepKey: string
  stepNumber: number
  to: string
  enabled: boolean
  irreversible: boolean
  code?: string
  reason?: string
}

/** One time that a step was taken with a business object. */
export interface OperationView {
  id: string
  entityType: string
  entityId: string
  stepKey: string
  status: string
  result?: unknown
  failure?: FailureView
  attempts: number
}

/** An effect with an unknown outcome. */
export interface DoubtView {
  runId: string
  stepId: string
  effectKey: string
  version: number
  workflow: string
  since: string
  failure: FailureView
  attempts: number
  resolutions: Resolution[]
}

/** How a doubt is settled. All but `happened` need the role manager. */
export type Resolution = 'happened' | 'did_not_happen' | 'compensate' | 'abandon'

/** An effect of a run, with what is known about its attempts. */
export interface LedgerEntryView {
  runId?: string
  stepId: string
  class: string
  happened: number
  mayHaveHappened: number
  happenedTwice: number
  mayHaveHappenedTwice: number
  [field: string]: unknown
}
