// A trip: a hotel, a flight and a payment. If one of them fails, those before it are undone, last first.
import { Failure, workflow } from 'hapax'

/** Something that can be booked and given back. Both honour keys. */
export interface Bookable {
  book(what: string, key: string): Promise<string>
  cancel(booking: string, key: string): Promise<void>
}

export interface Trip {
  hotel: string
  flight: string
  cents: number
}

export type TripResult = { status: 'booked'; hotel: string; flight: string } | { status: 'not booked'; reason: string }

export function tripWorkflow(hotels: Bookable, flights: Bookable, pay: (cents: number, key: string) => Promise<boolean>) {
  return workflow('trip', async (ctx, trip: Trip): Promise<TripResult> => {
    try {
      return await ctx.scope(async saga => {
        const hotel = await saga.step('hotel', attempt => hotels.book(trip.hotel, attempt.key), {
          compensate: (booking, attempt) => hotels.cancel(booking, attempt.key),
        })
        const flight = await saga.step('flight', attempt => flights.book(trip.flight, attempt.key), {
          compensate: (booking, attempt) => flights.cancel(booking, attempt.key),
        })
        await saga.step('pay', async attempt => {
          if (!(await pay(trip.cents, attempt.key))) throw Failure.permanent('the card was declined', { code: 'declined' })
        })
        return { status: 'booked', hotel, flight }
      })
    } catch (error) {
      // By now the bookings are undone.
      return { status: 'not booked', reason: Failure.from(error).message }
    }
  })
}
