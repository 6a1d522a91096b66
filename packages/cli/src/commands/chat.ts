// `muster chat`.
import type { Command } from 'commander'
import { parseModelName } from '../arguments.ts'
import { requestAnswer, streamAnswer } from '../chat/answer.ts'
import { chatOptions, chatSettings, type ChatSettings, type Message } from '../chat/chat-settings.ts'
import { CliError, reportError, usageError } from '../cli-error.ts'
import { type Shell, untilInterrupted } from '../shell.ts'
import { type ClientCall, clientCommand } from './command.ts'

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

// A conversation on a terminal: the model is told all that was said before.

async function converse(call: ClientCall, settings: ChatSettings): Promise<void> {
  const { print, shell } = call
  const ask = shell.input.createPrompt()
  let said: readonly Message[] = []
  print.remark('Ctrl-C stops an answer, Ctrl-D ends the conversation')
  for (;;) {
    const typed = await ask('> ')
    if (typed.kind === 'end') return shell.terminal.write('\n')
    if (typed.kind === 'line' && typed.text.trim() !== '')
      said = await answerPrompt(call, settings, [...said, { role: 'user', content: typed.text }])
  }
}

/** All that was said by now. A question without an answer is forgotten: it can be asked again. */
async function answerPrompt(call: ClientCall, settings: ChatSettings, messages: readonly Message[]): Promise<readonly Message[]> {
  using interrupted = untilInterrupted()
  try {
    const { text, isWhole } = await streamAnswer(call, { settings, messages, signal: interrupted.signal })
    if (!isWhole) call.print.remark('stopped')
    return text === '' ? messages.slice(0, -1) : [...messages, { role: 'assistant', content: text }]
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    reportError(error, call.shell.terminal)
    return messages.slice(0, -1)
  }
}
