/** The part of `@opentelemetry/api` that is used, if the program has it. */
interface OpenTelemetry {
  context: { active(): unknown; with<T>(context: unknown, run: () => T): T }
  propagation: { extract(context: unknown, carrier: unknown): unknown; inject(context: unknown, carrier: unknown): void }
  ROOT_CONTEXT: unknown
}

let loaded: Promise<OpenTelemetry | undefined> | undefined

/** Loads `@opentelemetry/api`, if the program has it. */
export function openTelemetry(): Promise<OpenTelemetry | undefined> {
  const name = '@opentelemetry/api'
  loaded ??= import(name).then(
    module => module as OpenTelemetry,
    () => undefined,
  )
  return loaded
}

/** Headers that carry the active trace. */
export async function traceHeaders(): Promise<Record<string, string>> {
  const api = await openTelemetry()
  const headers: Record<string, string> = {}
  api?.propagation.inject(api.context.active(), headers)
  return headers
}

/** Runs code within a trace. */
export function withinTrace<T>(api: OpenTelemetry | undefined, traceparent: string | undefined, run: () => T): T {
  if (api === undefined || traceparent === undefined) return run()
  return api.context.with(api.propagation.extract(api.ROOT_CONTEXT, { traceparent }), run)
}

export type { OpenTelemetry }
