// `muster galleries …`: where backends and models are offered.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { defineGroup } from './define-command.ts'
import { galleriesAdd } from './galleries-add.ts'
import { galleriesLs } from './galleries-ls.ts'
import { galleriesRm } from './galleries-rm.ts'

export function galleries(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'galleries', summary: 'List, add and remove galleries of backends and models' })
  for (const define of [galleriesLs, galleriesAdd, galleriesRm]) define(group, shell)
}
