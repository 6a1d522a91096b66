// The options of an upgrade that goes from ring to ring.
import { Option } from 'commander'
import { Rollout, type Strategy } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/client-command.ts'

export const rolloutOptions = (): Option[] => [
  new Option('--canary <nodes>', 'rolling: so many nodes are upgraded before all others (default: 1)'),
  new Option('--max-parallel <nodes>', 'rolling: so many at once after them (default: 1)'),
  new Option('--min-healthy-time <duration>', 'rolling: how long the new build has to be well before the next ring (default: 10s)'),
]

/** Null when nothing of it was said. */
export function rolloutOf({ option }: Pick<ClientCall, 'option'>, strategy: Strategy | undefined): Rollout | null {
  const given = {
    ...countOf('canary', option('canary')),
    ...countOf('max_parallel', option('maxParallel')),
    ...(option('minHealthyTime') === undefined ? {} : { min_healthy_time: option('minHealthyTime') }),
  }
  if (Object.keys(given).length === 0) return null
  if (strategy === 'recreate')
    throw usageError('--canary, --max-parallel and --min-healthy-time are for rolling upgrades: recreate has no rings')
  const parsed = Rollout.safeParse(given)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw usageError(`--${String(issue?.path[0]).replaceAll('_', '-')}: ${issue?.message ?? 'not valid'}`)
}

const countOf = (name: 'canary' | 'max_parallel', text: string | undefined): Record<string, number> =>
  text === undefined ? {} : { [name]: /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN }
