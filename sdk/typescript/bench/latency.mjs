// Measures what a run that is kept in the worker waits for: the step after a settled promise, and late steps of a long run.
//
//   npm run build
//   HAPAX_URL=… HAPAX_API_KEY=… node bench/latency.mjs
import { Hapax, Worker, silent, workflow } from 'hapax'

const PROMISES = 200
const STEPS = 1_010

let begun = () => {}
const waits = workflow('bench-promise', async ctx => {
  await ctx.promise('paid')
  return ctx.step('next', () => begun(performance.now()))
})
const times = []
const long = workflow('bench-long', async ctx => {
  for (let n = 0; n < STEPS; n++) await ctx.step('step', () => void times.push(performance.now()))
})
const hapax = new Hapax()
const worker = new Worker({ workflows: [waits, long], log: silent })
const working = worker.run()
await worker.ready()

const median = list => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const rounded = number => Number(number.toFixed(2))

const toNextStep = []
for (let n = 0; n < PROMISES; n++) {
  const { run } = await hapax.start(waits)
  while ((await run.detail()).steps.length === 0);
  const next = new Promise(resolve => (begun = resolve))
  const settled = performance.now()
  await hapax.promises.resolve({ id: `${run.id}:paid` }, 1)
  toNextStep.push((await next) - settled)
  await run.result()
}
const { run } = await hapax.start(long)
await run.result({ timeout: '5m' })
const span = (from, to) => median(times.slice(from, to).map((time, place) => time - (times[from + place - 1] ?? time)))
const [early, late] = [span(5, 25), span(STEPS - 25, STEPS - 5)]
console.log(JSON.stringify({ promiseToNextStepP50Ms: rounded(median(toNextStep)), step10Ms: rounded(early), step1000Ms: rounded(late), ratio: rounded(late / early) }))
await worker.stop()
await working
