// Applies the number of replicas of `muster models scale` to the scheduling of a model. Pure.
import { Scheduling } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import type { ClientCall } from '../commands/command.ts'
import { schedulingLines } from './describe-model.ts'

export type ReplicaChange = Pick<Scheduling, 'replicas' | 'min_replicas' | 'max_replicas'>

const usage = 'give a number of replicas, MIN..MAX or all; or --min, --max or both, or --all'

export function parseReplicaChange({ words: [, given], option, flag }: Pick<ClientCall, 'words' | 'option' | 'flag'>): ReplicaChange {
  const min = parseCount('--min', option('min'))
  const max = parseCount('--max', option('max'))
  const hasNumbers = min !== undefined || max !== undefined
  if ([given !== undefined, flag('all'), hasNumbers].filter(Boolean).length !== 1) throw usageError(`${usage}, and not two of them`)
  if (flag('all') || given === 'all') return { replicas: 'all' }
  if (given !== undefined) return parseRange(given)
  return { ...(min === undefined ? {} : { min_replicas: min }), ...(max === undefined ? {} : { max_replicas: max }) }
}

/** `3`, `1..4`, `1..`. */
function parseRange(text: string): ReplicaChange {
  const [first = '', last, ...more] = text.split('..')
  if (more.length > 0) throw usageError(usage)
  const min = parseCount('replicas', first) ?? 0
  const max = last === undefined ? min : last === '' ? 0 : parseCount('replicas', last)
  if (max === 0 && last !== '') throw usageError('cannot scale to 0: `muster models unload` stops all replicas, 0..1 starts one on demand')
  return { min_replicas: min, ...(max === undefined ? {} : { max_replicas: max }) }
}

function parseCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,4}$/.test(text) || Number(text) > 1024) throw usageError(`${name}: give a number of replicas from 0 to 1024`)
  return Number(text)
}

/** `all` and a range exclude each other; the rest of the scheduling stays. */
export function scaleScheduling(scheduling: Scheduling, change: ReplicaChange): Scheduling {
  const { replicas: _replicas, min_replicas: min, max_replicas: max, ...others } = scheduling
  const kept =
    change.replicas === 'all'
      ? {}
      : { ...(min === undefined ? {} : { min_replicas: min }), ...(max === undefined ? {} : { max_replicas: max }) }
  const parsed = Scheduling.safeParse({ ...others, ...kept, ...change })
  if (parsed.success) return parsed.data
  throw usageError(
    `${parsed.error.issues[0]?.message ?? 'not valid'}: the model has ${schedulingLines(scheduling)[0] ?? 'none'} now`,
    'give both, as in MIN..MAX',
  )
}
