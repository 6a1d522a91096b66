// `muster login-link`.
import type { Command } from 'commander'
import { loginRoutes } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const loginLink = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'login-link',
    summary: 'Make a link that logs a browser in to the UI, once',
    examples: ['xdg-open "$(muster login-link)"'],
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(loginRoutes.createLink)
      print.result(raw, () => plainText(body.url))
      print.remark(`it works once, until ${plainText(body.expires_at)}`)
    },
  })
