// Drives runs of five steps through one worker, and says how fast that was.
//
//   npm run build
//   HAPAX_URL=… HAPAX_API_KEY=… node bench/five-steps.mjs --runs 2000 --outstanding 256
//   HAPAX_URL=… HAPAX_API_KEY=… node bench/five-steps.mjs --runs 200 --outstanding 1
//
// With many outstanding, runs are started in batches and counted as they end in the worker, so that steps are what is measured.
// With one, the time of a run is that from the request that starts it to its result. CPU is that of this process.
import { parseArgs } from 'node:util'
import { Hapax, Worker, silent, workflow } from 'hapax'

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '2000' }, outstanding: { type: 'string', default: '256' }, claimed: { type: 'boolean', default: false } },
})
const runs = Number(values.runs)
const outstanding = Number(values.outstanding)
const STEPS = 5

/** Called when the code of a run has ended. */
let onEnd = () => {}
const fiveSteps = workflow('bench-five-steps', async (ctx, input) => {
  let sum = 0
  for (let n = 0; n < STEPS; n++) sum += await ctx.step('add', () => input.n, values.claimed ? { claimed: true, timeout: '30s' } : {})
  onEnd()
  return sum
})
const hapax = new Hapax()
const worker = new Worker({ workflows: [fiveSteps], concurrency: outstanding, cacheSize: outstanding * 4, log: silent })
const working = worker.run()
await worker.ready()

/** Longest batch that the server takes. */
const BATCH = 100

async function startBatch(count) {
  const run = { workflow: 'bench-five-steps@1', input: { n: 1 } }
  await hapax.request('POST', '/api/v1/workflow-runs/batch', { runs: Array.from({ length: count }, () => run) })
}

/** Keeps this many runs outstanding until `count` have ended. */
async function crowd(count, width) {
  let started = 0
  let ended = 0
  await new Promise((resolve, reject) => {
    let isStarting = false
    const refill = async () => {
      const room = Math.min(width - (started - ended), count - started, BATCH)
      if (isStarting || room <= 0 || (room < BATCH && room < width / 4 && count - started > room)) return
      isStarting = true
      started += room
      await startBatch(room)
      isStarting = false
      void refill().catch(reject)
    }
    onEnd = () => {
      ended++
      if (ended === count) resolve()
      else void refill().catch(reject)
    }
    void refill().catch(reject)
  })
  onEnd = () => {}
  return {}
}

/** One run after the other. */
async function alone(count) {
  const times = []
  for (let n = 0; n < count; n++) {
    const began = performance.now()
    const { run } = await hapax.start(fiveSteps, { n: 1 })
    await run.result()
    times.push(performance.now() - began)
  }
  times.sort((a, b) => a - b)
  const at = share => Number(times[Math.floor((times.length - 1) * share)].toFixed(1))
  return { runP50Ms: at(0.5), runP99Ms: at(0.99) }
}

async function measure(count, width) {
  const before = process.cpuUsage()
  const begin = performance.now()
  const told = width === 1 ? await alone(count) : await crowd(count, width)
  const seconds = (performance.now() - begin) / 1000
  const { user, system } = process.cpuUsage(before)
  const steps = count * STEPS
  const cpuMicrosPerStep = Math.round((user + system) / steps)
  console.log(JSON.stringify({ runs: count, outstanding: width, stepsPerSecond: Math.round(steps / seconds), cpuMicrosPerStep, ...told }))
}

// The first runs warm up.
await measure(Math.min(runs, outstanding * 2), outstanding)
await measure(runs, outstanding)
await worker.stop()
await working
