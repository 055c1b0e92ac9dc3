// An agent that answers a customer and may give money back. What the model said is recorded, so a crash does not ask it again, and
// the refund tool is a step of its own: however often the loop is replayed, the money goes out once.
import { Failure, type ProbeAnswer, didNotHappen, happened, workflow } from 'hapax'

export type Message = { role: 'user' | 'tool'; text: string } | { role: 'model'; reply: Reply }

/** What a model asks for, or says in the end. */
export type Reply = { tool: 'look_up_order'; order: string } | { tool: 'refund'; order: string; cents: number } | { answer: string }

export interface Model {
  complete(messages: readonly Message[]): Promise<Reply>
}

export interface Shop {
  order(id: string): Promise<{ cents: number; refundable: boolean }>
  /** A bank without keys: the reference is all there is. */
  refund(order: string, cents: number, reference: string): Promise<string>
  findRefund(reference: string): Promise<string | undefined>
}

/** Turns after which a person takes over. */
const MAX_TURNS = 10
/** What the agent may give back by itself. More needs a person. */
const MAX_CENTS = 10_000

export function agentWorkflow(model: Model, shop: Shop) {
  return workflow('support-agent', async (ctx, question: string) => {
    const messages: Message[] = [{ role: 'user', text: question }]
    for (let turn = 0; turn < MAX_TURNS; turn++) {
      // Asking a model twice costs money, but does no harm. Its answer is recorded before anything follows from it.
      const reply = await ctx.step('think', () => model.complete(messages), { timeout: '2m', retry: { maxAttempts: 3 } })
      messages.push({ role: 'model', reply })
      if ('answer' in reply) return reply.answer
      if (reply.tool === 'look_up_order') {
        const order = await ctx.step('look-up', () => shop.order(reply.order))
        messages.push({ role: 'tool', text: JSON.stringify(order) })
        continue
      }
      const { order, cents } = reply
      if (cents > MAX_CENTS) {
        const approved = await ctx.promise<boolean>('approval', { key: `refund:${order}`, timeout: '3d' })
        if (!approved) {
          messages.push({ role: 'tool', text: 'a person declined the refund' })
          continue
        }
      }
      const refund = await ctx.step('refund', attempt => shop.refund(order, cents, attempt.key), {
        claimed: true,
        nonIdempotent: true,
        timeout: '30s',
        probe: async (attempt): Promise<ProbeAnswer<string>> => {
          const found = await shop.findRefund(attempt.key)
          return found === undefined ? didNotHappen : happened(found)
        },
      })
      messages.push({ role: 'tool', text: `refunded as ${refund}` })
    }
    throw Failure.permanent('the agent found no answer; a person has to look', { code: 'needs_person' })
  })
}
