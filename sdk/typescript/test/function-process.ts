// A function that cannot poll, in a process of its own. It tells what it does line by line.
import { createServer } from 'node:http'
import { rejected, action, task, workflow } from '../src/index.js'
import { pushHandler } from '../src/push/index.js'

const say = (...words: unknown[]): void => void process.stdout.write(`${words.join(' ')}\n`)

const order = workflow('pushed-order', async (ctx, input: { amount: number; stall?: boolean }) => {
  const made = ctx.now().getTime()
  const charge = await ctx.step('charge', attempt => {
    say('charge', attempt.key, attempt.attempt)
    return `ch_${input.amount}`
  })
  const [a, b] = await ctx.all([ctx.step('left', () => 'l'), ctx.step('right', () => 'r')])
  if (input.stall === true) {
    const claimed = { claimed: true } as const
    const wired = await ctx.step('wire', () => { say('wire'); return new Promise<string>(() => setInterval(() => undefined, 1000)) }, claimed)
    return { wired }
  }
  const approved = await ctx.signal<{ by: string }>('approved')
  return { charge, a, b, by: approved.by, isSameTime: made > 0 }
})
const mail = task('pushed-mail', (input: { to: string }, call) => ({ to: input.to, key: call.key }))
const close = action('PushedClose', entity => (entity.id === 'INV-2' ? rejected('it has open items') : { closed: entity.id }))

let handler = pushHandler({ secret: 'whsec_' + btoa('x'.repeat(32)) })
const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    const body = Buffer.concat(chunks)
    if (request.url === '/secret') {
      handler = pushHandler({ secret: body.toString(), workflows: [order], tasks: [mail], actions: [close] })
      response.end()
      return
    }
    const headers = new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)] as [string, string]))
    void handler(new Request(`http://function${request.url ?? '/'}`, { method: request.method ?? 'POST', headers, body })).then(async answer => {
      response.writeHead(answer.status, Object.fromEntries(answer.headers))
      response.end(await answer.text())
    })
  })
})
server.listen(0, '127.0.0.1', () => say('ready', (server.address() as { port: number }).port))
