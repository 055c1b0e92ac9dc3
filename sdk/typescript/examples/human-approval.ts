// An expense that a person approves. The link in the mail settles a promise; after three days nobody is asked any more.
import { workflow } from 'hapax'

export interface Expense {
  id: string
  cents: number
  by: string
}

export interface Decision {
  approved: boolean
  by: string
}

export interface Office {
  ask(expense: Expense, promiseId: string, key: string): Promise<void>
  remind(expense: Expense, key: string): Promise<void>
  pay(expense: Expense, key: string): Promise<string>
}

export function expenseWorkflow(office: Office) {
  return workflow('expense', async (ctx, expense: Expense) => {
    const decision = ctx.promise<Decision>('decision', { key: `expense:${expense.id}` })
    await ctx.step('ask', attempt => office.ask(expense, decision.id, attempt.key))

    const first = await ctx.select({
      decided: decision,
      late: async late => {
        await late.sleep('1d', { name: 'patience' })
        await late.step('remind', attempt => office.remind(expense, attempt.key))
        await late.sleep('2d', { name: 'deadline' })
      },
    })
    if (first.which === 'late') return { status: 'expired' as const }
    if (!first.value.approved) return { status: 'declined' as const, by: first.value.by }

    const payment = await ctx.step('pay', attempt => office.pay(expense, attempt.key))
    return { status: 'paid' as const, by: first.value.by, payment }
  })
}
