// Who did something, as it is written down.
import type { Principal } from './principal.ts'

export const nameOf = (principal: Principal): string => (principal.kind === 'key' ? `key ${principal.name}` : principal.kind)
