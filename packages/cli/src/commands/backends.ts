// `muster backends …`: the engines on the nodes.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { backendsGallery } from './backends-gallery.ts'
import { backendsInstall } from './backends-install.ts'
import { backendsLs } from './backends-ls.ts'
import { backendsRm } from './backends-rm.ts'
import { backendsUpgrade } from './backends-upgrade.ts'
import { backendsUpgrades } from './backends-upgrades.ts'
import { defineGroup } from './define-command.ts'

export function backends(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'backends', summary: 'List, install, upgrade and remove the engines on the nodes' })
  for (const define of [backendsLs, backendsGallery, backendsInstall, backendsUpgrade, backendsRm, backendsUpgrades]) define(group, shell)
}
