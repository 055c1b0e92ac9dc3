// A worker in a process of its own, for tests that kill it. It tells what it does line by line.
import { existsSync } from 'node:fs'
import { Worker, workflow } from '../src/index.js'

const say = (...words: unknown[]): void => void process.stdout.write(`${words.join(' ')}\n`)

/** Blocks for ever while a file is there. */
async function gate(file: string): Promise<void> {
  if (existsSync(file)) await new Promise(() => setInterval(() => undefined, 1000))
}

const chain = workflow('chain', async (ctx, input: { block: string; at: string; claimed?: boolean }) => {
  const keys: string[] = []
  for (const name of ['one', 'two', 'three', 'four', 'five']) {
    const key = await ctx.step(
      name,
      async attempt => {
        say('enter', name, attempt.attempt)
        if (name === input.at) await gate(input.block)
        say('leave', name)
        return attempt.key
      },
      name === input.at && input.claimed === true ? { claimed: true, timeout: '1s' } : {},
    )
    keys.push(key)
  }
  return keys
})

const instance = process.env.INSTANCE
const worker = new Worker({ workflows: [chain], ...(instance === undefined ? {} : { instance }) })
const working = worker.run()
await worker.ready()
say('ready')
await working
say('stopped')
