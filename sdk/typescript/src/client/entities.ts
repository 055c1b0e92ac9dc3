import type { Api } from './api.js'
import { guard } from './run.js'
import type { AllowedAction, EntityView, OperationView } from './views.js'

/** Longest that one request waits for a step, in seconds. */
const LONGEST_WAIT = 30

/** Options of a step with a business object. */
export interface TransitionOptions {
  /** Input of the step. */
  input?: Record<string, unknown>
  /** Who asks for it. */
  requester?: string
  /** Business key: the same key names the same operation. */
  key?: string
  /** Seconds to wait for the end of the step; 30 by default. */
  wait?: number
  /** Version of the object that you saw. */
  ifVersion?: number
}

/** Business objects that move by the steps of an entity workflow. */
export class Entities {
  constructor(private readonly api: Api) {}

  /** Uploads an entity workflow. */
  upload(document: unknown): Promise<unknown> {
    return this.api.post('/api/v1/entity-workflows', document)
  }

  /** Creates a business object. The same again is the same object. */
  create(type: string, entity: { id: string; status: string; data?: Record<string, unknown> }): Promise<{ entity: EntityView; created: boolean }> {
    return this.api.post(`/api/v1/entities/${encodeURIComponent(type)}`, entity)
  }

  /** The object, and what can be done with it. */
  get(type: string, id: string): Promise<{ entity: EntityView; workflow: string; allowedActions: AllowedAction[] }> {
    return this.api.read(path(type, id))
  }

  /** Business objects of a type, by id. */
  list(type: string, filter: { status?: string } = {}): AsyncGenerator<EntityView> {
    return this.api.pages(`/api/v1/entities/${encodeURIComponent(type)}`, filter)
  }

  /** Takes a step with the object, and waits for its end. `entity` is absent while the step is under way. */
  transition(
    type: string,
    id: string,
    step: string,
    options: TransitionOptions = {},
  ): Promise<{ operation: OperationView; entity?: EntityView; created: boolean }> {
    const { input, requester, key, wait = LONGEST_WAIT } = options
    const headers = { prefer: `wait=${wait}`, ...guard(options) }
    const body = { input, requester, idempotencyKey: key }
    return this.api.post(`${path(type, id)}/steps/${encodeURIComponent(step)}`, body, headers, wait)
  }
}

function path(type: string, id: string): string {
  return `/api/v1/entities/${encodeURIComponent(type)}/${encodeURIComponent(id)}`
}
