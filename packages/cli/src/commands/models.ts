// `muster models …`: what is served, how, and where.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { defineGroup } from './define-command.ts'
import { modelsApply } from './models-apply.ts'
import { modelsGallery } from './models-gallery.ts'
import { modelsInstall } from './models-install.ts'
import { modelsLoad } from './models-load.ts'
import { modelsLogs } from './models-logs.ts'
import { modelsLs } from './models-ls.ts'
import { modelsRm } from './models-rm.ts'
import { modelsScale } from './models-scale.ts'
import { modelsShow } from './models-show.ts'
import { modelsUnload } from './models-unload.ts'
import { modelsUpload } from './models-upload.ts'
import { modelsWhy } from './models-why.ts'

export function models(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'models', summary: 'Say what is to be served, load and unload it, and see where it runs' })
  const looking = [modelsLs, modelsShow, modelsWhy, modelsLogs, modelsGallery]
  const changing = [modelsInstall, modelsApply, modelsRm, modelsLoad, modelsUnload, modelsScale, modelsUpload]
  for (const define of [...looking, ...changing]) define(group, shell)
}
