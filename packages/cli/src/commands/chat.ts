// `muster chat`: one prompt, or a conversation on a terminal.
import { Option } from 'commander'
import { parseDuration, errorMessage } from '@muster/host'
import type { ModelName } from '@muster/protocol'
import { parseModelName } from '../arguments.ts'
import { type ChatMessage, type ChatSettings, requestAnswer, streamAnswer } from '../chat/answer.ts'
import { CliError, reportError, usageError } from '../cli-error.ts'
import { listenForInterrupt } from '../shell.ts'
import { type ClientCommand, type ClientCall } from './command.ts'

const defaultWaitMs = 600_000

export const chat: ClientCommand = {
  name: 'chat',
  summary: 'Ask a model, once or in a conversation',
  details:
    'Without a prompt argument, the prompt is read from standard input; on a terminal a conversation begins. A model that is not loaded is loaded first. Exits with 1 when the answer is incomplete, and with 3 when the model is still loading.',
  arguments: [
    ['<model>', 'its name, as `muster models ls` shows it'],
    ['[prompt]', 'the question'],
  ],
  options: chatOptions(),
  examples: [
    'muster chat tiny "Once upon a time"',
    'muster chat tiny',
    'git diff | muster chat tiny --system "Summarize this change." --stats',
  ],
  run: async (call) => {
    const settings = chatSettings(call, parseModelName(call.words[0]))
    if (call.words[1] === undefined && call.shell.input.isTerminal && call.print.format === 'text') return converse(call, settings)
    const content = await readPrompt(call)
    using interrupted = listenForInterrupt()
    const { signal } = interrupted
    const request = { settings, messages: [{ role: 'user', content } as const], signal }
    if (call.print.format === 'text') {
      const { isWhole } = await streamAnswer(call, request)
      if (!isWhole) throw new CliError('stopped: the answer is incomplete')
      return
    }
    const answer = await requestAnswer(call, request).catch((error: unknown) => {
      throw signal.aborted ? new CliError('stopped: there is no answer') : error
    })
    call.print.result(answer, () => '')
  },
}

async function readPrompt({ words, shell }: ClientCall): Promise<string> {
  const content = words[1] ?? (shell.input.isTerminal ? '' : await shell.input.readAll())
  if (content.trim() === '') throw usageError('give a prompt, as an argument or on standard input')
  return content
}

/** Each prompt is sent with the whole conversation before it. */
async function converse(call: ClientCall, settings: ChatSettings): Promise<void> {
  const { print, shell } = call
  const prompt = shell.input.createPrompt()
  let conversation: readonly ChatMessage[] = []
  print.remark('Ctrl-C stops an answer, Ctrl-D ends the conversation')
  for (;;) {
    const typed = await prompt('> ')
    if (typed.kind === 'end') return shell.terminal.write('\n')
    if (typed.kind === 'line' && typed.text.trim() !== '')
      conversation = await answerPrompt(call, settings, [...conversation, { role: 'user', content: typed.text }])
  }
}

/** Returns the conversation so far. A prompt without an answer is dropped from it. */
async function answerPrompt(call: ClientCall, settings: ChatSettings, messages: readonly ChatMessage[]): Promise<readonly ChatMessage[]> {
  using interrupted = listenForInterrupt()
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

function chatOptions(): Option[] {
  return [
    new Option('--system <text>', 'the system prompt'),
    new Option('--temperature <number>', '0 for the likeliest words, higher for others'),
    new Option('--max-tokens <number>', 'the longest answer'),
    new Option('--seed <number>', 'the same seed and prompt give the same answer, if the backend supports it'),
    new Option('--wait <duration>', 'how long to wait for a model that has to be loaded first (default: 10m)'),
    new Option('--stats', 'print the number of tokens and their rate on stderr'),
  ]
}

function chatSettings({ option, flag }: Pick<ClientCall, 'option' | 'flag'>, model: ModelName): ChatSettings {
  const system = option('system')
  const temperature = parseNumber('temperature', option('temperature'), /^\d+(?:\.\d+)?$/)
  const maxTokens = parseNumber('max-tokens', option('maxTokens'), /^[1-9]\d{0,8}$/)
  const seed = parseNumber('seed', option('seed'), /^-?\d{1,15}$/)
  return {
    model,
    system: system === undefined ? [] : [{ role: 'system', content: system }],
    sampling: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
      ...(seed === undefined ? {} : { seed }),
    },
    waitMs: parseWait(option('wait')),
    hasStats: flag('stats'),
  }
}

function parseNumber(name: string, text: string | undefined, pattern: RegExp): number | undefined {
  if (text === undefined) return undefined
  if (!pattern.test(text)) throw usageError(`--${name}: ${JSON.stringify(text)} is not a valid number`)
  return Number(text)
}

function parseWait(text: string | undefined): number {
  if (text === undefined) return defaultWaitMs
  try {
    // 0 means the default, as for every setting.
    return parseDuration(text) || defaultWaitMs
  } catch (error) {
    throw usageError(`--wait: ${errorMessage(error)}`)
  }
}
