// What is said of models: states in words and colours, and sentences that are true right now. Pure.
import type { ModelConfig, ModelState, ModelView, ReplicaView } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { formatBytesOf, formatCount, formatDuration, listNames, plural, searchFor } from '../../format.ts'

export const modelTones: Readonly<Record<ModelState, Tone>> = {
  unloaded: 'idle',
  pending: 'work',
  installing: 'work',
  staging: 'work',
  loading: 'work',
  ready: 'good',
  failed: 'bad',
}

export const isComingUp = (state: ModelState): boolean => modelTones[state] === 'work'

/** How far a model is with coming up. */
export interface Coming {
  readonly node: string | null
  readonly percent: number
  readonly current: number
  readonly total: number
}

/** One line that fits in a sentence. Of what a process wrote last, the last line is the cause. */
export function briefly(message: string, most = 200): string {
  const lines = message
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  const [first = '', last] = [lines[0], lines.length > 1 ? lines.at(-1) : undefined]
  const line = first.endsWith(':') && last !== undefined ? `${first} ${last}` : first
  return line.length > most ? `${line.slice(0, most - 1)}…` : line.replace(/\.$/, '')
}

/** `4 models, 3 ready. embed failed to load: …` */
export function modelsSentence(models: readonly ModelView[]): string {
  if (models.length === 0) return 'No models yet.'
  const count = (is: (model: ModelView) => boolean): number => models.filter(is).length
  const coming = count(({ state }) => isComingUp(state))
  const head = [`${plural(models.length, 'model')}, ${count(({ state }) => state === 'ready')} ready`]
  if (coming > 0) head.push(`${coming} coming up`)
  const failed = models.filter(({ state }) => state === 'failed')
  const short = models.filter(({ state, failure }) => state === 'ready' && failure !== null)
  const [first] = failed
  const told = [`${head.join(', ')}.`]
  if (failed.length > 1) told.push(`${listNames(failed.map(({ name }) => name))} failed to load.`)
  else if (first !== undefined) told.push(`${first.name} failed to load: ${briefly(first.failure?.message ?? 'nobody said why')}.`)
  if (short.length > 0)
    told.push(`${listNames(short.map(({ name }) => name))} ${short.length === 1 ? 'serves' : 'serve'} with fewer replicas than wanted.`)
  return told.join(' ')
}

export interface Known {
  readonly replicas: readonly ReplicaView[] | undefined
  readonly coming: Coming | null
  readonly perMinute: number | undefined
}

/** `2 of 2 replicas ready on gpu-1 and gpu-2; 14 requests/min.` */
export function modelSentence(model: ModelView, { replicas = [], coming, perMinute }: Known): string {
  const on = coming?.node === null || coming?.node === undefined ? '' : ` on ${coming.node}`
  switch (model.state) {
    case 'unloaded':
      return 'Nothing of it runs. The first request loads it, or Load does.'
    case 'pending':
      return 'Waits for a node that can take it; the tab Placement says what speaks against each.'
    case 'installing':
      return `Its backend ${model.backend} is being installed${on}${amount(coming)}.`
    case 'staging':
      return `Its files are being fetched${on}${amount(coming)}.`
    case 'loading':
      return `Its process starts${on}.`
    case 'failed':
      return `Failed to load after ${plural(model.failure?.attempts ?? 1, 'try', 'tries')}.`
    case 'ready': {
      const nodes = [...new Set(replicas.filter(({ state }) => state === 'ready').map(({ node_name: name }) => name))]
      const ready = `${countReplicas(model)} ready${nodes.length === 0 ? '' : ` on ${listNames(nodes.toSorted(), 4)}`}`
      return `${ready}${perMinute === undefined ? '' : `; ${formatCount(perMinute)} requests/min`}.`
    }
    default:
      return model.state satisfies never
  }
}

const amount = (coming: Coming | null): string =>
  coming === null || coming.total === 0 ? '' : `: ${Math.floor(coming.percent)} %, ${formatBytesOf(coming.current, coming.total)}`

/** More may run than are wanted while they are replaced. */
const countReplicas = ({ replicas_ready: ready, replicas_desired: desired }: ModelView): string =>
  desired < ready || desired === 0 ? plural(ready, 'replica') : `${ready} of ${plural(desired, 'replica')}`

/** `2 of 2`; nothing when none is there or wanted. */
export const replicasOf = ({
  replicas_ready: ready,
  replicas_desired: desired,
}: Pick<ModelView, 'replicas_ready' | 'replicas_desired'>): string =>
  ready === 0 && desired === 0 ? '–' : `${ready} of ${Math.max(ready, desired)}`

/** `next try in 40 s`; null: it waits for somebody. */
export function nextTry(at: string | null, now: number): string {
  if (at === null) return 'It is not tried again by itself: change the configuration, or load it'
  const ms = Date.parse(at) - now
  return ms > 999 ? `Next try in ${formatDuration(ms)}` : 'The next try is due'
}

export interface ModelFilter {
  readonly q: string
  readonly state: string
}

export function filterModels(models: readonly ModelView[], { q, state }: ModelFilter): readonly ModelView[] {
  const isFound = searchFor(q)
  return models.filter(
    (model) =>
      (state === '' || (state === 'coming' ? isComingUp(model.state) : model.state === state)) &&
      isFound(model.name, model.backend, model.config.description ?? ''),
  )
}

function endOfReplicas(replicas: readonly ReplicaView[]): string {
  const live = replicas.filter(({ state }) => state !== 'exited')
  if (live.length === 0) return 'Nothing of it runs now.'
  const nodes = listNames([...new Set(live.map(({ node_name: name }) => name))].toSorted(), 5)
  const inFlight = live.reduce((sum, { in_flight: count }) => sum + count, 0)
  const busy =
    inFlight === 0 ? 'nothing is in flight' : `${plural(inFlight, 'request')} in flight ${inFlight === 1 ? 'is' : 'are'} finished first`
  return `${plural(live.length, 'replica')} on ${nodes} ${live.length === 1 ? 'ends' : 'end'}; ${busy}.`
}

export function unloadConsequences({ config: { scheduling } }: ModelView, replicas: readonly ReplicaView[]): string[] {
  const min = scheduling.min_replicas ?? 0
  const against = min > 0 ? `, also against its minimum of ${min}` : scheduling.replicas === 'all' ? ', also against “replicas: all”' : ''
  return [
    endOfReplicas(replicas),
    `It is held at none${against}, and over restarts, until the next load, request or change of its scheduling.`,
    'Its configuration and its files stay.',
  ]
}

export function deleteConsequences({ name, config: { files } }: ModelView, replicas: readonly ReplicaView[]): string[] {
  return [
    `Its configuration goes at once: from then on requests for ${name} are refused as unknown.`,
    endOfReplicas(replicas),
    ...(files.length === 0
      ? []
      : [
          `Its ${plural(files.length, 'file')} ${files.length === 1 ? 'is' : 'are'} deleted on every node, unless another model needs them; a node that is away does it when it returns.`,
        ]),
    'This can’t be undone.',
  ]
}

interface SaveMeaning {
  readonly changes: 'nothing' | 'words' | 'revision'
  readonly sentence: string
}

type Before = Pick<ModelView, 'config' | 'revision' | 'replicas_ready'>

export function saveMeaning(before: Before, then: { readonly config: ModelConfig; readonly revision: string }): SaveMeaning {
  if (isSameConfig(before.config, then.config)) return { changes: 'nothing', sentence: 'It means what is saved already.' }
  if (before.revision === then.revision) {
    const isScheduled = canonical(before.config.scheduling) !== canonical(then.config.scheduling)
    const scheduling = isScheduled ? ' Its scheduling changes: replicas may be added or drained.' : ''
    return { changes: 'words', sentence: `The revision stays: nothing that runs is replaced.${scheduling}` }
  }
  const { replicas_ready: ready } = before
  const replaced =
    ready === 0
      ? 'the next load uses it'
      : ready === 1
        ? 'its replica is replaced: the new one comes up before the old one goes'
        : `its ${plural(ready, 'replica')} are replaced one by one`
  return { changes: 'revision', sentence: `Changes the revision: ${replaced}.` }
}

export const isSameConfig = (a: ModelConfig, b: ModelConfig): boolean => canonical(a) === canonical(b)

/** Whatever the order of keys; what is undefined is not there. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  )
