// `muster models scale`.
import { type Command, Option } from 'commander'
import { modelRoutes, Scheduling } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { schedulingLines } from '../models/describe-model.ts'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const modelsScale = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'scale',
    summary: 'Change how many replicas a model has',
    details:
      'Between the two numbers the load decides. With a minimum of 0 the last replica goes when nobody has asked for a while. The rest of its scheduling stays as it is.',
    arguments: [modelArgument, ['[replicas]', 'a number; MIN..MAX, or MIN.. for no limit; or all']],
    options: [
      new Option('--min <number>', 'at least so many, also when nobody asks'),
      new Option('--max <number>', 'at most so many; 0 for no limit'),
      new Option('--all', 'one on every node that its selector matches, instead of two numbers'),
    ],
    examples: [
      'muster models scale tiny 2',
      'muster models scale tiny 1..4',
      'muster models scale tiny all',
      'muster models scale tiny --max 4',
    ],
    run: async (call) => {
      const { api, print, words } = call
      const change = parseReplicaChange(call)
      const params = { name: parseModelName(words[0]) }
      const { body: model } = await api.call(modelRoutes.get, { params })
      const { raw, body } = await api.call(modelRoutes.scheduling, { params, body: scaleScheduling(model.config.scheduling, change) })
      print.result(raw, () => plainText(`${body.name}: ${schedulingLines(body.config.scheduling).join('; ')}`))
    },
  })

type ReplicaChange = Pick<Scheduling, 'replicas' | 'min_replicas' | 'max_replicas'>

const usage = 'give a number of replicas, MIN..MAX or all; or --min, --max or both, or --all'

function parseReplicaChange({ words: [, given], option, flag }: ClientCall): ReplicaChange {
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
  if (max === 0 && last !== '')
    throw usageError('none is no number to scale to: `muster models unload` stops all, 0..1 starts one on demand')
  return { min_replicas: min, ...(max === undefined ? {} : { max_replicas: max }) }
}

function parseCount(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,4}$/.test(text) || Number(text) > 1024) throw usageError(`${name}: give a number of replicas from 0 to 1024`)
  return Number(text)
}

/** Both ways of counting exclude each other; everything else stays. */
function scaleScheduling(scheduling: Scheduling, change: ReplicaChange): Scheduling {
  const { replicas: _replicas, min_replicas: min, max_replicas: max, ...others } = scheduling
  const kept =
    change.replicas === 'all'
      ? {}
      : { ...(min === undefined ? {} : { min_replicas: min }), ...(max === undefined ? {} : { max_replicas: max }) }
  const parsed = Scheduling.safeParse({ ...others, ...kept, ...change })
  if (parsed.success) return parsed.data
  throw usageError(
    `${parsed.error.issues[0]?.message ?? 'not valid'}: it has ${schedulingLines(scheduling)[0] ?? 'none'} now`,
    'give both, as in MIN..MAX',
  )
}
