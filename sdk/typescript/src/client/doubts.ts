import type { Api } from './api.js'
import type { DoubtView, Resolution } from './views.js'

/** Effects with an unknown outcome. */
export class Doubts {
  constructor(private readonly api: Api) {}

  /** Open doubts, oldest first. */
  list(): AsyncGenerator<DoubtView> {
    return this.api.pages('/api/v1/doubts', {})
  }

  /** Decides about a doubt as it was seen. It counts once; a doubt that has changed since is refused. */
  resolve(
    doubt: Pick<DoubtView, 'runId' | 'stepId' | 'version'>,
    ruling: { resolution: Resolution; reason: string; output?: unknown; by?: string },
  ): Promise<unknown> {
    const { runId, stepId, version } = doubt
    const path = `/api/v1/doubts/${encodeURIComponent(runId)}/${encodeURIComponent(stepId)}/resolve`
    return this.api.post(path, { ...ruling, version })
  }
}
