// What the requests of an image have in common: wrong statuses are failures, and what is unavailable is tried again.
import type { OutboundResponse } from '../outbound/outbound.ts'
import { createPatience, type Patiently } from '../outbound/patience.ts'
import { createRegistryApi, type RegistryOptions, type RegistryRequest } from './registry-api.ts'
import { statusFailure } from '../outbound/status-failure.ts'

export interface RegistryCall {
  /** One attempt; any status that is not fine throws. */
  send(request: RegistryRequest, expected: { what: string; fine: readonly number[] }): Promise<OutboundResponse>
  readonly patiently: Patiently
}

export function createRegistryCall(options: RegistryOptions & { readonly random?: () => number }): RegistryCall {
  const { clock, log, random = Math.random } = options
  const api = createRegistryApi(options)
  return {
    patiently: createPatience({ clock, log, random }),
    async send(request, { what, fine }) {
      const response = await api.send(request)
      if (fine.includes(response.status)) return response
      throw await statusFailure(response, { what, who: 'the registry', now: clock.now() })
    },
  }
}
