// `muster ops …`: what was asked for, and what came of it.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { defineGroup } from './define-command.ts'
import { opsCancel } from './ops-cancel.ts'
import { opsLs } from './ops-ls.ts'
import { opsRetry } from './ops-retry.ts'
import { opsShow } from './ops-show.ts'
import { opsWatch } from './ops-watch.ts'

export function ops(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'ops', summary: 'List, watch, retry and cancel operations' })
  for (const define of [opsLs, opsShow, opsWatch, opsRetry, opsCancel]) define(group, shell)
}
