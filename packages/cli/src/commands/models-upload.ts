// `muster models upload`.
import { basename } from 'node:path'
import { type Command, Option } from 'commander'
import { ModelFileName, modelRoutes } from '@muster/protocol'
import { CliError, usageError } from '../cli-error.ts'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { openUpload } from '../models/open-upload.ts'
import { formatBytes } from '../output/amounts.ts'
import { plainText } from '../output/plain-text.ts'
import { renderFields } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import { clientCommand } from './client-command.ts'

export const modelsUpload = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'upload',
    summary: 'Send a file of a model to the nodes',
    details: 'For files that no node can fetch by itself. What is printed as Uri belongs under `files` of the model.',
    arguments: [modelArgument, ['<file>', 'on this machine']],
    options: [new Option('--as <filename>', 'its name in the folder of the model (default: the name it has here)')],
    examples: ['muster models upload tiny ./tiny.gguf'],
    run: async ({ api, print, option, words: [model, file = ''] }) => {
      const params = { name: parseModelName(model), filename: parseFileName(option('as') ?? basename(file)) }
      using interrupted = untilInterrupted()
      const { signal } = interrupted
      using upload = await openUpload(file, { screen: print.format === 'json' ? null : shell.terminal.screen, clock: shell.clock })
      try {
        const { raw, body } = await api.call(modelRoutes.upload, { params, signal, content: upload.content })
        upload[Symbol.dispose]()
        print.result(raw, () =>
          renderFields([
            ['File', body.filename],
            ['Size', formatBytes(body.size)],
            ['Uri', `upload:${body.digest}`],
            ['Nodes', body.nodes.join(', ')],
          ]),
        )
      } catch (error) {
        if (signal.aborted) throw new CliError('stopped; the file was not sent to its end')
        throw error
      }
    },
  })

function parseFileName(text: string): ModelFileName {
  const parsed = ModelFileName.safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(plainText(text))} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
}
