import type { Access } from '@muster/protocol'
import { expect, it } from 'vitest'
import { may, type Verdict } from './may.pure.ts'
import type { Principal } from './principal.ts'

const key = (scope: 'inference' | 'read' | 'admin'): Principal => ({ kind: 'key', id: 'k', name: 'k', scope })
const callers: readonly Principal[] = [
  { kind: 'anonymous' },
  key('inference'),
  key('read'),
  key('admin'),
  { kind: 'browser', session: 's', key: null, scope: 'admin', endsAt: 1 },
]
const loopback = { isOpen: true, requireApiKey: false }
const outside = { isOpen: false, requireApiKey: false }
const y: Verdict = 'yes'
const u: Verdict = 'unauthenticated'
const f: Verdict = 'forbidden'

it.each<[Exclude<Access, 'node'>, string, typeof loopback, Verdict[]]>([
  ['open', 'outside', outside, [y, y, y, y, y]],
  ['inference', 'loopback', loopback, [y, y, y, y, y]],
  ['inference', 'loopback with --require-api-key', { isOpen: true, requireApiKey: true }, [u, y, f, y, y]],
  ['inference', 'outside', outside, [u, y, f, y, y]],
  ['metrics', 'loopback', loopback, [y, y, y, y, y]],
  ['metrics', 'outside', outside, [u, f, y, y, y]],
  ['read', 'loopback', loopback, [u, f, y, y, y]],
  ['admin', 'loopback', loopback, [u, f, f, y, y]],
])('%s on %s: nobody, inference, read, admin, browser', (access, _, listener, verdicts) => {
  expect(callers.map((caller) => may(caller, access, listener))).toEqual(verdicts)
})
