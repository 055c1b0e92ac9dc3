// A worker in a process of its own, for tests that kill it. It tells what it does line by line.
import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { type Attempt, Worker, workflow } from '../src/index.js'

const say = (...words: unknown[]): void => void process.stdout.write(`${words.join(' ')}\n`)

/** Blocks while a file is there. */
async function gate(file: string): Promise<void> {
  while (existsSync(file)) await pause(20)
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

/** Each effect writes its key into a file. */
const errand = workflow(process.env.ERRAND ?? 'errand', async (ctx, input: { books: string }) => {
  const note = (attempt: Attempt) => {
    appendFileSync(input.books, `${attempt.key}\n`)
    return attempt.key
  }
  const before = await ctx.step('before', note)
  const wire = await ctx.step('wire', note, { claimed: true, timeout: '1s' })
  const after = await ctx.step('after', note)
  return [before, wire, after]
})

const instance = process.env.INSTANCE
const worker = new Worker({ workflows: [chain, errand], ...(instance === undefined ? {} : { instance }) })
const working = worker.run()
await worker.ready()
say('ready')
await working
say('stopped')
