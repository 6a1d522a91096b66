// What a key of each scope may do, in words.
import type { Scope } from '@muster/protocol'

export const scopes: readonly Scope[] = ['inference', 'read', 'admin']

export const scopeWords: Readonly<Record<Scope, string>> = {
  inference: 'may use models by /v1, and nothing else',
  read: 'may look at everything, and change nothing',
  admin: 'may do everything, also make keys',
}
