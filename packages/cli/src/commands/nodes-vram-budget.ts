// `muster nodes vram-budget`.
import { type Command, Option } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesVramBudget = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'vram-budget',
    summary: 'Let Muster use only part of the GPU memory of a node',
    details: 'It only lowers: a budget above what the node has changes nothing. `muster nodes show` shows it.',
    arguments: [nodeArgument, ['[budget]', 'a percentage (80%) or a size (12GB)']],
    options: [new Option('--clear', 'use all of it again')],
    examples: ['muster nodes vram-budget gpu-1 80%', 'muster nodes vram-budget gpu-1 12GB', 'muster nodes vram-budget gpu-1 --clear'],
    run: async ({ api, print, flag, words: [wanted, value] }) => {
      const budget = flag('clear') ? null : parseBudget(value)
      if (budget === null && value !== undefined) throw usageError('--clear takes no budget')
      const node = await fetchNode(api, wanted)
      const params = { id: node.id }
      const { raw, body } =
        budget === null
          ? await api.call(nodeRoutes.deleteVramBudget, { params })
          : await api.call(nodeRoutes.putVramBudget, { params, body: budget })
      print.result(raw, () => plainText(`${body.name} (${body.id}) may use ${body.vram_budget ?? 'all'} of its GPU memory`))
    },
  })

function parseBudget(value: string | undefined): { value: string } {
  if (value === undefined) throw usageError('give a budget, a percentage (80%) or a size (12GB), or --clear')
  const parsed = nodeRoutes.putVramBudget.body?.safeParse({ value })
  if (parsed?.success === true) return parsed.data
  throw usageError(`${JSON.stringify(plainText(value))} is none: ${parsed?.error.issues[0]?.message ?? 'not valid'}`)
}
