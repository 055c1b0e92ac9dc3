// An order: charge a card at a provider that honours keys, book a carrier that does not.
import { Failure, type ProbeAnswer, didNotHappen, happened, workflow } from 'hapax'
import { z } from 'zod'

export const Order = z.object({ id: z.string(), cents: z.int().positive(), address: z.string() })
export type Order = z.infer<typeof Order>

/** A card provider like Stripe: the same key is the same charge. */
export interface CardProvider {
  charge(cents: number, idempotencyKey: string, signal: AbortSignal): Promise<{ id: string } | 'declined'>
}

/** A carrier without keys. A booking carries a reference, by which it can be found. */
export interface Carrier {
  book(address: string, reference: string): Promise<string>
  find(reference: string): Promise<string | undefined>
}

export function orderWorkflow(cards: CardProvider, carrier: Carrier) {
  return workflow(
    'order',
    async (ctx, order: Order) => {
      const charge = await ctx.step(
        'charge',
        async attempt => {
          const charge = await cards.charge(order.cents, attempt.key, attempt.signal)
          if (charge === 'declined') throw Failure.permanent('the card was declined', { code: 'declined' })
          return charge
        },
        { timeout: '30s', retry: { maxAttempts: 5, first: '1s', factor: 2, cap: '1m' } },
      )
      // Twice booked is twice paid, so the booking is claimed before it begins. After a crash the carrier is asked.
      const parcel = await ctx.step('book', attempt => carrier.book(order.address, attempt.key), {
        claimed: true,
        timeout: '20s',
        probe: async (attempt): Promise<ProbeAnswer<string>> => {
          const parcel = await carrier.find(attempt.key)
          return parcel === undefined ? didNotHappen : happened(parcel)
        },
      })
      return { charge: charge.id, parcel }
    },
    { input: Order },
  )
}
