/** Why a request is not one of the server's. */
export class NotVerified extends Error {}

type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

/** Verifies requests by Standard Webhooks: signed with one of the secrets, and not too old. */
export class Verifier {
  private readonly keys: Promise<Key[]>

  constructor(
    secrets: readonly string[],
    private readonly tolerance: number,
    private readonly now: () => number,
  ) {
    if (secrets.length === 0) throw new TypeError('give the secret of the push worker')
    this.keys = Promise.all(secrets.map(keyOf))
    // It is reported by the first request.
    this.keys.catch(() => undefined)
  }

  /** Returns the id of the request. */
  async verify(headers: Headers, body: string): Promise<string> {
    const id = headers.get('webhook-id') ?? ''
    const timestamp = headers.get('webhook-timestamp') ?? ''
    if (id === '' || !/^\d{1,12}$/.test(timestamp)) throw new NotVerified('the headers webhook-id and webhook-timestamp are missing')
    if (Math.abs(this.now() - Number(timestamp) * 1_000) > this.tolerance) throw new NotVerified('the timestamp is too old, or too new')
    const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`)
    const given = (headers.get('webhook-signature') ?? '').split(' ').filter(part => part.startsWith('v1,'))
    for (const key of await this.keys) {
      for (const part of given.slice(0, MAX_SIGNATURES)) {
        const signature = bytesOf(part.slice(3))
        if (signature && (await crypto.subtle.verify('HMAC', key, signature, signed))) return id
      }
    }
    throw new NotVerified('the signature is missing, or not made with the secret')
  }
}

const MAX_SIGNATURES = 16

async function keyOf(secret: string): Promise<Key> {
  const bytes = bytesOf(secret.replace(/^whsec_/, ''))
  if (!bytes || bytes.length < 24) throw new TypeError('a secret of a push worker is whsec_ and base64')
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64), character => character.charCodeAt(0))
  } catch {
    return undefined
  }
}
