import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { FakeProvider, crashEverywhere } from 'hapax/testing'
import { agentWorkflow, type Reply } from '../examples/ai-agent.js'
import { expenseWorkflow } from '../examples/human-approval.js'
import { orderWorkflow } from '../examples/order.js'
import { tripWorkflow } from '../examples/saga.js'

const one = async <T>(provider: FakeProvider<T>, key: string, value: T): Promise<T> => Promise.resolve(provider.request(key, () => value))

describe('the examples survive a crash anywhere', () => {
  test('order: the card is charged once, the parcel booked once', async () => {
    const cards = new FakeProvider<{ id: string }>()
    const bookings = new FakeProvider<string>({ honoursKeys: false })
    const order = orderWorkflow(
      { charge: (_cents, key) => one(cards, key, { id: 'ch_1' }) },
      { book: (_address, key) => one(bookings, key, 'parcel 1'), find: async key => Promise.resolve(bookings.find(key)) },
    )
    const input = { id: '4711', cents: 1999, address: 'Prague' }
    const report = await crashEverywhere(order, input, { providers: [cards, bookings] })
    report.assertEffect('charge', 'atLeastOnce')
    report.assertEffect('book', 'exactlyOnce')
    assert.equal(cards.happened, 1)
  })

  test('order: an input that does not fit the schema fails the run', async () => {
    const order = orderWorkflow({ charge: () => Promise.reject(new Error('no')) }, { book: () => Promise.reject(new Error('no')), find: () => Promise.resolve(undefined) })
    await assert.rejects(crashEverywhere(order, { id: '4711', cents: -1, address: '' }), /the input of order is not valid: cents/)
  })

  test('saga: what was booked is undone', async () => {
    const bookings = new FakeProvider<string>()
    const cancelled = new FakeProvider<string>()
    const agency = {
      book: (what: string, key: string) => one(bookings, key, what),
      cancel: async (booking: string, key: string) => {
        await one(cancelled, key, booking)
      },
    }
    const trip = tripWorkflow(agency, agency, (_cents, key) => Promise.resolve(key === ''))
    const report = await crashEverywhere(trip, { hotel: 'h', flight: 'f', cents: 5 }, { providers: [bookings, cancelled] })
    assert.equal(report.usualEnd, 'completed')
    assert.equal(bookings.happened, 2)
    assert.equal(cancelled.happened, 2)
  })

  test('human approval: decided in time, and too late', async () => {
    const mails = new FakeProvider<null>()
    const office = {
      ask: async (_expense: unknown, _id: string, key: string) => {
        await one(mails, key, null)
      },
      remind: async (_expense: unknown, key: string) => {
        await one(mails, key, null)
      },
      pay: (_expense: unknown, key: string) => Promise.resolve(`paid under ${key}`),
    }
    const expense = { id: 'E-1', cents: 100, by: 'ada' }
    const late = await crashEverywhere(expenseWorkflow(office), expense, { providers: [mails] })
    assert.equal(late.effect('remind').usual, 1)
    const inTime = await crashEverywhere(expenseWorkflow(office), expense, {
      providers: [mails],
      outside: world => world.resolve({ key: 'expense:E-1' }, { approved: true, by: 'bob' }),
    })
    assert.equal(inTime.effect('pay').usual, 1)
    assert.throws(() => inTime.effect('remind'))
  })

  test('AI agent: the refund goes out once, and the model is not asked again for what it said', async () => {
    const bank = new FakeProvider<string>({ honoursKeys: false })
    const replies: Reply[] = [{ tool: 'look_up_order', order: '7' }, { tool: 'refund', order: '7', cents: 50 }, { answer: 'Your money is on its way.' }]
    const agent = agentWorkflow(
      { complete: messages => Promise.resolve(replies[messages.filter(message => message.role === 'model').length] ?? { answer: '' }) },
      {
        order: () => Promise.resolve({ cents: 50, refundable: true }),
        refund: (_order, _cents, key) => one(bank, key, 'R-1'),
        findRefund: key => Promise.resolve(bank.find(key)),
      },
    )
    const report = await crashEverywhere(agent, 'Where is my parcel?', {
      providers: [bank],
      repeatable: ['think', 'think#2', 'think#3', 'look-up'],
    })
    report.assertEffect('refund', 'exactlyOnce')
    assert.equal(report.effect('think').usual, 1)
  })
})
