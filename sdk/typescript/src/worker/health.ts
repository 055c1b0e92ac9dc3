import { createServer } from 'node:http'

/** Where a worker serves its health. */
export interface HealthOptions {
  /** Port to listen on. 0 takes a free one. */
  port: number
  /** Address to listen on; 127.0.0.1 by default. */
  host?: string
  /** Called with the port that was taken. */
  onListening?: (port: number) => void
}

export interface HealthServer {
  close(): Promise<void>
}

/** Serves the status as JSON: 200 if it is healthy, else 503. */
export async function serveHealth(options: HealthOptions, status: () => { isHealthy: boolean }): Promise<HealthServer> {
  const server = createServer((request, response) => {
    const isKnown = request.method === 'GET' && (request.url === '/healthz' || request.url === '/')
    const { isHealthy, ...told } = status()
    response.writeHead(isKnown ? (isHealthy ? 200 : 503) : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ status: isHealthy ? 'ok' : 'unavailable', ...told }))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host ?? '127.0.0.1', resolve)
  })
  const address = server.address()
  if (typeof address === 'object' && address) options.onListening?.(address.port)
  return {
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
