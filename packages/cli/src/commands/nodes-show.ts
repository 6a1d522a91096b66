// `muster nodes show`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import { replicasOfNodeColumns } from '../models/model-tables.ts'
import { renderNode } from '../nodes/node-table.ts'
import { asObject } from '../output/as-object.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesShow = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'show',
    summary: 'Show all that is known of one node, and the replicas on it',
    arguments: [nodeArgument],
    examples: ['muster nodes show gpu-1', 'muster nodes show gpu-1 -o json'],
    run: async ({ api, print, words: [wanted] }) => {
      const node = await fetchNode(api, wanted)
      const params = { id: node.id }
      const { raw, body } = await api.call(nodeRoutes.get, { params })
      const replicas = await api.call(nodeRoutes.models, { params })
      print.result({ ...asObject(raw), ...asObject(replicas.raw) }, () => {
        const now = shell.clock.now()
        const fields = renderNode(body, now)
        const rows = replicas.body.replicas
        return rows.length === 0 ? fields : `${fields}\n\n${renderTable(replicasOfNodeColumns(now), rows, print.width)}`
      })
    },
  })
