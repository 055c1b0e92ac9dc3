/**
 * Waits until everything that can run without the outside world has run.
 *
 * Workflow code waits for promises of its context alone, so after an outcome it goes on in microtasks, and in nothing else.
 * On Node.js and Bun a tick that is queued by a microtask begins when no microtask is left. Elsewhere the next macrotask does.
 */
export const settled: () => Promise<void> = chooseSettled()

interface Runtime {
  process?: { nextTick?: (callback: () => void) => void }
  setImmediate?: (callback: () => void) => void
  Deno?: unknown
}

function chooseSettled(): () => Promise<void> {
  const { process, setImmediate, Deno } = globalThis as unknown as Runtime
  const nextTick = Deno === undefined ? process?.nextTick : undefined
  if (nextTick) return () => new Promise(resolve => queueMicrotask(() => nextTick(resolve)))
  if (setImmediate) return () => new Promise(resolve => setImmediate(resolve))
  return () => new Promise(resolve => setTimeout(resolve, 0))
}
