// `muster keys rm`.
import type { Command } from 'commander'
import { keyRoutes } from '@muster/protocol'
import { findByName } from '../find-by-name.ts'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const keysRm = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'rm',
    summary: 'Revoke a key',
    arguments: [['<key>', 'its id, or its name if only one key has it']],
    examples: ['muster keys rm ci'],
    run: async ({ api, print, words: [wanted] }) => {
      const { body } = await api.call(keyRoutes.list)
      const key = findByName('key', body.keys, wanted ?? '')
      const { raw } = await api.call(keyRoutes.remove, { params: { id: key.id } })
      print.result(raw, () => `${plainText(key.name)} (${key.id}) is revoked`)
    },
  })
