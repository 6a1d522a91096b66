// `muster nodes …`: the fleet.
import type { Command } from 'commander'
import type { Shell } from '../shell.ts'
import { defineGroup } from './define-command.ts'
import { nodesApprove } from './nodes-approve.ts'
import { nodesDrain } from './nodes-drain.ts'
import { nodesLabel } from './nodes-label.ts'
import { nodesLs } from './nodes-ls.ts'
import { nodesResume } from './nodes-resume.ts'
import { nodesRm } from './nodes-rm.ts'
import { nodesShow } from './nodes-show.ts'
import { nodesVramBudget } from './nodes-vram-budget.ts'

export function nodes(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'nodes', summary: 'List, approve, drain, label and remove the machines of the fleet' })
  for (const define of [nodesLs, nodesShow, nodesApprove, nodesDrain, nodesResume, nodesRm, nodesLabel, nodesVramBudget])
    define(group, shell)
}
