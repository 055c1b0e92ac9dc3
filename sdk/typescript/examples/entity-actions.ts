// Business objects whose steps call code of this worker. The document names the action; the server holds the claim, so that two
// people cannot close one invoice at once.
import { action, rejected } from 'hapax'

/** The entity workflow. Upload it with `hapax.entities.upload(billing)`. */
export const billing = {
  name: 'billing',
  module: 'default',
  entity: 'invoice',
  statusTypes: ['draft', 'approved', 'closing', 'closed'],
  steps: [
    { stepId: 10, stepKey: 'approve', status: 'draft', successfulState: 'approved' },
    {
      stepId: 20,
      stepKey: 'close',
      status: 'approved',
      claimState: ['closing', 'approved'],
      successfulState: 'closed',
      action: { admin: 'CloseBillingActionUseCase' },
    },
  ],
}

export interface Invoice {
  total: number
  customer: string
}

export interface Ledger {
  close(invoice: string, total: number, idempotencyKey: string): Promise<string>
}

export function closeBilling(ledger: Ledger) {
  return action('CloseBillingActionUseCase', async (invoice: { id: string; data: Invoice }, call) => {
    if (invoice.data.total === 0) return rejected('there is nothing to bill')
    call.ensureStillHeld()
    return { receipt: await ledger.close(invoice.id, invoice.data.total, call.key) }
  })
}
