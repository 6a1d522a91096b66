// `muster chat`.
import type { Command } from 'commander'
import { requestAnswer, streamAnswer } from '../chat/ask-model.ts'
import { chatOptions, chatSettings } from '../chat/chat-settings.ts'
import { converse } from '../chat/converse.ts'
import { CliError, usageError } from '../cli-error.ts'
import { parseModelName } from '../models/model-name.ts'
import type { Shell } from '../shell.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const chat = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'chat',
    summary: 'Ask a model, once or in a conversation',
    details:
      'Without a prompt it is read from standard input, or on a terminal asked for again and again. A model that is not loaded is loaded, and waited for. Ends with 1 when the answer is not whole, and with 3 when the model is still loading.',
    arguments: [
      ['<model>', 'its name, as `muster models ls` shows it'],
      ['[prompt]', 'the question'],
    ],
    options: chatOptions(),
    examples: [
      'muster chat tiny "Once upon a time"',
      'muster chat tiny',
      'git diff | muster chat tiny --system "Summarise this change." --stats',
    ],
    run: async (call) => {
      const settings = chatSettings(call, parseModelName(call.words[0]))
      if (call.words[1] === undefined && shell.input.isTerminal && call.print.format === 'text') return converse(call, settings)
      const content = await promptOf(call)
      using interrupted = untilInterrupted()
      const { signal } = interrupted
      const question = { settings, messages: [{ role: 'user', content } as const], signal }
      if (call.print.format === 'text') {
        const { isWhole } = await streamAnswer(call, question)
        if (!isWhole) throw new CliError('stopped: the answer is not whole')
        return
      }
      const answer = await requestAnswer(call, question).catch((error: unknown) => {
        throw signal.aborted ? new CliError('stopped: there is no answer') : error
      })
      call.print.result(answer, () => '')
    },
  })

async function promptOf({ words, shell }: ClientCall): Promise<string> {
  const content = words[1] ?? (shell.input.isTerminal ? '' : await shell.input.readAll())
  if (content.trim() === '') throw usageError('give a prompt, as an argument or on standard input')
  return content
}
