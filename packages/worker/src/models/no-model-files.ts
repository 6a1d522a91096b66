// The files of models on a node that has none: an agent.
import { FleetError } from '@muster/protocol'
import type { ModelFiles } from './model-files.ts'

const refuse = (): Promise<never> =>
  Promise.reject(new FleetError({ code: 'invalid', retry: 'never', message: 'this node keeps no model files' }))

export const noModelFiles: ModelFiles = {
  stage: refuse,
  remove: async () => undefined,
  contents: async () => [],
  open: async () => null,
  size: async () => null,
  receive: refuse,
  close: async () => undefined,
}
