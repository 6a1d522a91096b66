// The options of `muster chat`, and what they mean.
import { Option } from 'commander'
import { parseDuration } from '@muster/host'
import type { ModelName } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'

export interface Message {
  readonly role: 'system' | 'user' | 'assistant'
  readonly content: string
}

export interface ChatSettings {
  readonly model: ModelName
  readonly system: readonly Message[]
  /** As they are sent; what was not given is left to the model. */
  readonly sampling: { readonly temperature?: number; readonly max_tokens?: number; readonly seed?: number }
  /** How long a model that has to be loaded first is waited for. */
  readonly waitMs: number
  readonly hasStats: boolean
}

const defaultWaitMs = 600_000

export const chatOptions = (): Option[] => [
  new Option('--system <text>', 'what the model is told before the conversation'),
  new Option('--temperature <number>', '0 for the likeliest words, higher for others'),
  new Option('--max-tokens <number>', 'the longest answer'),
  new Option('--seed <number>', 'the same seed and prompt, the same answer, where the backend can'),
  new Option('--wait <duration>', 'how long to wait for a model that has to be loaded first (default: 10m)'),
  new Option('--stats', 'say on stderr how many tokens came, and how fast'),
]

export function chatSettings({ option, flag }: Pick<ClientCall, 'option' | 'flag'>, model: ModelName): ChatSettings {
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
  if (!pattern.test(text)) throw usageError(`--${name}: ${JSON.stringify(text)} is no number that fits`)
  return Number(text)
}

function parseWait(text: string | undefined): number {
  if (text === undefined) return defaultWaitMs
  try {
    // As everywhere, 0 means the default.
    return parseDuration(text) || defaultWaitMs
  } catch (error) {
    throw usageError(`--wait: ${error instanceof Error ? error.message : String(error)}`)
  }
}
