// Texts about models: states, sentences, and the effects of unloading, deleting and saving.
import { formatBytesOf, formatDuration, type ModelConfig, type ModelState, type ModelView, type ReplicaView } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { formatCount, listNames, parseTime, plural, searchFor } from '../../format.ts'

export const modelTones: Readonly<Record<ModelState, Tone>> = {
  unloaded: 'idle',
  pending: 'work',
  installing: 'work',
  staging: 'work',
  loading: 'work',
  ready: 'good',
  failed: 'bad',
}

export const isStarting = (state: ModelState): boolean => modelTones[state] === 'work'

export interface LoadProgress {
  readonly node: string | null
  readonly percent: number
  readonly current: number
  readonly total: number
}

/** One line of an error message. After a first line that ends with a colon, the last line is the cause. */
export function firstLine(message: string, max = 200): string {
  const lines = message
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const [first = '', last] = [lines[0], lines.length > 1 ? lines.at(-1) : undefined]
  const line = first.endsWith(':') && last !== undefined ? `${first} ${last}` : first
  return line.length > max ? `${line.slice(0, max - 1)}…` : line.replace(/\.$/, '')
}

/** `4 models, 3 ready. embed failed to load: …` */
export function modelsSentence(models: readonly ModelView[]): string {
  if (models.length === 0) return 'No models yet.'
  const count = (is: (model: ModelView) => boolean): number => models.filter(is).length
  const starting = count(({ state }) => isStarting(state))
  const head = [`${plural(models.length, 'model')}, ${count(({ state }) => state === 'ready')} ready`]
  if (starting > 0) head.push(`${starting} starting`)
  const failed = models.filter(({ state }) => state === 'failed')
  const short = models.filter(({ state, failure }) => state === 'ready' && failure !== null)
  const [first] = failed
  const parts = [`${head.join(', ')}.`]
  if (failed.length > 1) parts.push(`${listNames(failed.map(({ name }) => name))} failed to load.`)
  else if (first !== undefined) parts.push(`${first.name} failed to load: ${firstLine(first.failure?.message ?? 'unknown reason')}.`)
  if (short.length > 0)
    parts.push(`${listNames(short.map(({ name }) => name))} ${short.length === 1 ? 'has' : 'have'} fewer replicas than desired.`)
  return parts.join(' ')
}

export interface ModelFacts {
  readonly replicas: readonly ReplicaView[] | undefined
  readonly progress: LoadProgress | null
  readonly perMinute: number | undefined
}

/** `2 of 2 replicas ready on gpu-1 and gpu-2; 14 requests/min.` */
export function modelSentence(model: ModelView, { replicas = [], progress, perMinute }: ModelFacts): string {
  const on = progress?.node === null || progress?.node === undefined ? '' : ` on ${progress.node}`
  switch (model.state) {
    case 'unloaded':
      return 'Not loaded. The first request loads it.'
    case 'pending':
      return 'Waiting for an eligible node. The Placement tab shows why nodes are excluded.'
    case 'installing':
      return `Installing backend ${model.backend}${on}${amount(progress)}.`
    case 'staging':
      return `Downloading files${on}${amount(progress)}.`
    case 'loading':
      return `Starting${on}.`
    case 'failed':
      return `Failed to load after ${plural(model.failure?.attempts ?? 1, 'attempt')}.`
    case 'ready': {
      const nodes = [...new Set(replicas.filter(({ state }) => state === 'ready').map(({ node_name: name }) => name))]
      const ready = `${countReplicas(model)} ready${nodes.length === 0 ? '' : ` on ${listNames(nodes.toSorted(), 4)}`}`
      return `${ready}${perMinute === undefined ? '' : `; ${formatCount(perMinute)} requests/min`}.`
    }
    default:
      return model.state satisfies never
  }
}

const amount = (progress: LoadProgress | null): string =>
  progress === null || progress.total === 0 ? '' : `: ${Math.floor(progress.percent)} %, ${formatBytesOf(progress.current, progress.total)}`

/** While replicas are replaced, more may run than desired. */
const countReplicas = ({ replicas_ready: ready, replicas_desired: desired }: ModelView): string =>
  desired < ready || desired === 0 ? plural(ready, 'replica') : `${ready} of ${plural(desired, 'replica')}`

/** `2 of 2`; a dash when there are none and none are desired. */
type ReplicaCounts = Pick<ModelView, 'replicas_ready' | 'replicas_desired'>
export const replicasOf = ({ replicas_ready: ready, replicas_desired: desired }: ReplicaCounts): string =>
  ready === 0 && desired === 0 ? '–' : `${ready} of ${Math.max(ready, desired)}`

/** `Next attempt in 40s`; null when there is no automatic retry. */
export function describeNextTry(at: string | null, now: number): string {
  if (at === null) return 'No automatic retry; change the configuration or load the model'
  const ms = parseTime(at) - now
  return ms > 999 ? `Next attempt in ${formatDuration(ms)}` : 'Next attempt is due'
}

export function filterModels(models: readonly ModelView[], { q, state }: { q: string; state: string }): readonly ModelView[] {
  const isFound = searchFor(q)
  return models.filter(
    (model) =>
      (state === '' || (state === 'starting' ? isStarting(model.state) : model.state === state)) &&
      isFound(model.name, model.backend, model.config.description ?? ''),
  )
}

function describeStop(replicas: readonly ReplicaView[]): string {
  const live = replicas.filter(({ state }) => state !== 'exited')
  if (live.length === 0) return 'No replicas are running.'
  const nodes = listNames([...new Set(live.map(({ node_name: name }) => name))].toSorted(), 5)
  const inFlight = live.reduce((sum, { in_flight: count }) => sum + count, 0)
  const requests = inFlight === 0 ? '; no requests in flight' : ` after finishing ${plural(inFlight, 'request')} in flight`
  return `Stops ${plural(live.length, 'replica')} on ${nodes}${requests}.`
}

export function unloadEffects({ config: { scheduling } }: ModelView, replicas: readonly ReplicaView[]): string[] {
  const min = scheduling.min_replicas ?? 0
  const despite = min > 0 ? ` despite its minimum of ${min}` : scheduling.replicas === 'all' ? ' despite “replicas: all”' : ''
  return [
    describeStop(replicas),
    `It stays unloaded${despite}, also across restarts, until the next load, request or scheduling change.`,
    'Its configuration and files are kept.',
  ]
}

export function deleteEffects({ name, config: { files } }: ModelView, replicas: readonly ReplicaView[]): string[] {
  return [
    `Its configuration is deleted at once; requests for ${name} are then rejected as unknown.`,
    describeStop(replicas),
    ...(files.length === 0
      ? []
      : [
          `Its ${plural(files.length, 'file')} ${files.length === 1 ? 'is' : 'are'} deleted from every node unless another model uses them; offline nodes follow when they return.`,
        ]),
    'This cannot be undone.',
  ]
}

export type NodeModelAction = 'unload-here' | 'delete-here'

export const isNodeModelAction = (act: string | undefined): act is NodeModelAction => act === 'unload-here' || act === 'delete-here'

export function nodeModelEffects(act: NodeModelAction, { model, node }: { readonly model: string; readonly node: string }): string[] {
  return [
    `Stops the replicas of ${model} on ${node} once their requests are answered. Replicas on other nodes serve on.`,
    `It does not start on ${node} again, also across restarts, until it is loaded there or its scheduling changes.`,
    `If its minimum requires it, a replica starts on another node.`,
    ...(act === 'delete-here'
      ? [`Its files on ${node} are deleted unless another model uses them. The model itself stays.`]
      : ['Its files stay on the node.']),
  ]
}

interface SaveEffect {
  readonly changes: 'nothing' | 'metadata' | 'revision'
  readonly sentence: string
}

type Before = Pick<ModelView, 'config' | 'revision' | 'replicas_ready'>

export function describeSave(before: Before, then: { readonly config: ModelConfig; readonly revision: string }): SaveEffect {
  if (isSameConfig(before.config, then.config)) return { changes: 'nothing', sentence: 'No effective changes.' }
  if (before.revision === then.revision) {
    const isScheduled = canonical(before.config.scheduling) !== canonical(then.config.scheduling)
    const scheduling = isScheduled ? ' Scheduling changes: replicas may be added or drained.' : ''
    return { changes: 'metadata', sentence: `Keeps the revision; running replicas are not replaced.${scheduling}` }
  }
  const { replicas_ready: ready } = before
  const replaced =
    ready === 0
      ? 'used by the next load'
      : ready === 1
        ? 'its replica is replaced once a new one is ready'
        : `its ${plural(ready, 'replica')} are replaced one by one`
  return { changes: 'revision', sentence: `Creates a new revision: ${replaced}.` }
}

export const isSameConfig = (a: ModelConfig, b: ModelConfig): boolean => canonical(a) === canonical(b)

/** JSON that ignores the order of keys and undefined values. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  )
