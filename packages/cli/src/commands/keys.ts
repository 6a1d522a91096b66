// `muster keys …`: who may use the API.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { defineGroup } from './define-command.ts'
import { keysCreate } from './keys-create.ts'
import { keysLs } from './keys-ls.ts'
import { keysRm } from './keys-rm.ts'

export function keys(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'keys', summary: 'List, make and revoke API keys' })
  for (const define of [keysLs, keysCreate, keysRm]) define(group, shell)
}
