// `muster models why`.
import type { Command } from 'commander'
import { modelRoutes } from '@muster/protocol'
import { evictionText, failureText, loadingText } from '../models/describe-model.ts'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { placementColumns } from '../models/model-tables.ts'
import { renderFields, renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsWhy = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'why',
    summary: 'Say where a model could run and why not elsewhere, how far its load is, and what failed',
    details:
      'Nodes that it fits have a score: the highest is chosen. All others have the reason that excludes them. When it fits none, replicas of other models may have to make room.',
    arguments: [modelArgument],
    examples: ['muster models why tiny'],
    run: async ({ api, print, words }) => {
      const params = { name: parseModelName(words[0]) }
      const status = await api.call(modelRoutes.loadStatus, { params })
      const placement = await api.call(modelRoutes.placement, { params })
      const nodes = placement.body.nodes.toSorted((a, b) => Number(b.eligible) - Number(a.eligible) || b.score - a.score)
      print.result({ load_status: status.raw, placement: placement.raw }, () => {
        const fields = renderFields([
          ['Model', params.name],
          ['State', loadingText(status.body)],
          ['Failure', failureText(status.body.failure, shell.clock.now())],
        ])
        if (nodes.length === 0) return `${fields}\n\nThere is no node.`
        const table = renderTable(placementColumns, nodes, print.width)
        return [fields, table, ...evictionText(placement.body.eviction ?? null)].join('\n\n')
      })
    },
  })
