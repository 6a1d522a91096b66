import { expect, it } from 'vitest'
import { backendUpgrade } from './backend.ts'

it('S1.8 an upgrade request has neither force nor a model', () => {
  const sent = { backend: 'llama', force: true, model_id: 'tiny', replica_index: 0, exact: true }
  expect(backendUpgrade.request.parse(sent)).toEqual({ backend: 'llama' })
})
