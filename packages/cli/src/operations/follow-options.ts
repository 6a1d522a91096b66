// The options of commands that follow what they started, and what they mean.
import { Option } from 'commander'
import { parseDuration } from '@muster/host'
import { usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/client-command.ts'

export type FollowMode =
  | { readonly follow: 'no' }
  /** Until it leaves `running`. */
  | { readonly follow: 'running' }
  /** Until every node has its outcome, or the time is over. */
  | { readonly follow: 'end'; readonly limitMs: number | null }

export const followOptions = (): Option[] => [
  new Option('--wait [duration]', 'follow to the very end, also what goes on in the background; --wait=30m: at most so long'),
  new Option('--no-wait', 'print the id of the operation, and follow nothing'),
]

export function followMode({ option, flag, isOff }: Pick<ClientCall, 'option' | 'flag' | 'isOff'>): FollowMode {
  if (isOff('wait')) return { follow: 'no' }
  const given = option('wait')
  if (given === undefined && !flag('wait')) return { follow: 'running' }
  return { follow: 'end', limitMs: given === undefined || given === '' ? null : parseLimit(given) }
}

function parseLimit(text: string): number | null {
  try {
    // As everywhere, 0 means the default: no limit.
    return parseDuration(text) || null
  } catch (error) {
    throw usageError(`--wait: ${error instanceof Error ? error.message : String(error)}`)
  }
}
