// A conversation on a terminal: the model is told all that was said before.
import { CliError } from '../cli-error.ts'
import type { ClientCall } from '../commands/client-command.ts'
import { reportError } from '../report-error.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import { streamAnswer } from './ask-model.ts'
import type { ChatSettings, Message } from './chat-settings.ts'

export async function converse(call: ClientCall, settings: ChatSettings): Promise<void> {
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
