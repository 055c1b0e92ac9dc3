import assert from 'node:assert/strict'
import { type Server, createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type TestContext, describe, test } from 'node:test'
import { type Exchange, type ExchangeRequest, viaFetch, viaNode } from '../src/client/exchange.js'

const ask = (more: Partial<ExchangeRequest> = {}): ExchangeRequest => ({ method: 'POST', headers: {}, body: '{"ž":1}', timeout: 5_000, ...more })

async function listen(t: TestContext, server: Server): Promise<string> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const ways: readonly (readonly [string, Exchange])[] = [
  ['the client of Node.js', viaNode() ?? assert.fail('this is Node.js')],
  ['fetch', viaFetch((input, init) => fetch(input, init))],
]

for (const [name, exchange] of ways) {
  describe(`requests over ${name}`, () => {
    test('carry bodies there and back, over connections that are kept', async t => {
      const sockets = new Set<Socket>()
      const url = await listen(
        t,
        createServer((request, response) => {
          sockets.add(request.socket)
          const chunks: Buffer[] = []
          request.on('data', (chunk: Buffer) => chunks.push(chunk))
          request.on('end', () => response.writeHead(201).end(Buffer.concat(chunks)))
        }),
      )
      const body = `{"text":"${'Žluťoučký kůň 🐎'.repeat(20_000)}"}`
      for (let n = 0; n < 5; n++) assert.deepEqual(await exchange(url, ask({ body })), { status: 201, text: body })
      // `fetch` may open a second one while the first ends its answer.
      assert.ok(sockets.size <= 2, String(sockets.size))
    })

    test('do not follow a redirect', async t => {
      const url = await listen(t, createServer((_, response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()))
      assert.equal((await exchange(url, ask())).status, 307)
    })

    test('are sent again over a new connection if the server had closed the kept one', async t => {
      let count = 0
      const server = createServer((request, response) => {
        count++
        request.resume().on('end', () => response.end('fine'))
      })
      server.keepAliveTimeout = 0
      const url = await listen(t, server)
      await exchange(url, ask())
      server.closeAllConnections()
      assert.equal((await exchange(url, ask())).text, 'fine')
      assert.equal(count, 2)
    })

    test('fail if the answer is cut, if none comes in time, and if they are aborted', async t => {
      const url = await listen(
        t,
        createServer((request, response) => {
          if (request.url !== '/cut') return
          response.writeHead(200, { 'content-length': 100 }).write('half')
          setImmediate(() => response.destroy())
        }),
      )
      await assert.rejects(exchange(`${url}cut`, ask()))
      await assert.rejects(exchange(url, ask({ timeout: 20 })))
      const abort = new AbortController()
      const aborted = exchange(url, ask({ signal: abort.signal }))
      abort.abort()
      await assert.rejects(aborted)
      await assert.rejects(exchange(url, ask({ signal: abort.signal })))
    })
  })
}
