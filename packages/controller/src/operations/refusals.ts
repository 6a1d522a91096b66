// Why a wish is refused before anything is queued.
import type { BackendName, NodeId } from '@muster/protocol'

export type RefusalCode = 'not_found' | 'not_installed' | 'not_eligible' | 'no_eligible_nodes' | 'in_use'

export class Refused extends Error {
  readonly code: RefusalCode

  constructor(code: RefusalCode, message: string) {
    super(message)
    this.name = 'Refused'
    this.code = code
  }
}

export const unknownNode = (id: NodeId): Refused => new Refused('not_found', `there is no node ${id}; GET /api/nodes lists them`)

export const notEligible = (name: string, reason: string): Refused =>
  new Refused('not_eligible', `nothing can be installed on ${name}: ${reason}`)

export const noEligibleNodes = (isSelected: boolean): Refused =>
  new Refused(
    'no_eligible_nodes',
    isSelected
      ? 'the selector matches no node that can have backends; GET /api/nodes shows their labels'
      : 'there is no node that can have backends: approve one, or let one join',
  )

export const inUse = (backend: BackendName, using: readonly { model: string; nodeName: string }[]): Refused => {
  const told = using.slice(0, 5).map(({ model, nodeName }) => `${model} on ${nodeName}`)
  const more = using.length > 5 ? ` and ${using.length - 5} more` : ''
  return new Refused('in_use', `${backend} runs ${told.join(', ')}${more}; unload them first, or delete it with ?force=true`)
}

export const notInstalled = (backend: BackendName): Refused =>
  new Refused('not_installed', `no node has ${backend}; GET /api/backends lists what is installed`)
