// The worker that `hapax bench workers --worker 'node sdk/typescript/bench/worker.mjs'` measures.
//
//   npm run build
//
// It finds the server in HAPAX_URL and HAPAX_API_KEY.
import { Worker, silent, workflow } from 'hapax'

const NAMES = ['reserve', 'charge', 'ship', 'mail', 'book']
const steps = workflow('bench-steps', async (ctx, job) => {
  let sum = 0
  for (let n = 0; n < job.steps; n++) sum += await ctx.step(NAMES[n % NAMES.length], () => job.order + n)
  return sum
})
await new Worker({ workflows: [steps], concurrency: 256, log: silent }).run()
