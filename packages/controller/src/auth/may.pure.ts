// Access rules: which principal may call which kind of route.
import { unreachable, type Access } from '@muster/protocol'
import type { Principal } from './principal.ts'

/** `isOpen`: only this machine can reach the listener, so metrics and inference need no key. */
export type Listener = Readonly<{ isOpen: boolean; requireApiKey: boolean }>
export type Verdict = 'yes' | 'unauthenticated' | 'forbidden'

/** An open route accepts any key, because clients of the OpenAI API always send one. */
export function isOpenTo(access: Access, listener: Listener): boolean {
  return listener.isOpen && (access === 'metrics' || (access === 'inference' && !listener.requireApiKey))
}

export function may(principal: Principal, access: Exclude<Access, 'node'>, listener: Listener): Verdict {
  const scopes = (...allowed: readonly string[]): Verdict =>
    principal.kind === 'anonymous' ? 'unauthenticated' : allowed.includes(principal.scope) ? 'yes' : 'forbidden'
  switch (access) {
    case 'open':
      return 'yes'
    case 'inference':
      return isOpenTo(access, listener) ? 'yes' : scopes('inference', 'admin')
    case 'metrics':
      return isOpenTo(access, listener) ? 'yes' : scopes('read', 'admin')
    case 'read':
      return scopes('read', 'admin')
    case 'admin':
      return scopes('admin')
    default:
      return unreachable(access)
  }
}
