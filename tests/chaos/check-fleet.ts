// Rules that compare what controllers show with the disks and the processes of the nodes, at every moment and in the end. Pure.
import type { Life, Observation, OnDisk, ShownBackend, ShownReplica, Violation } from './observation.ts'
import { createQuiet, longestCommon, type Span } from './quiet.ts'

/** A controller may contradict a node for as long as this. */
export const contradictionMs = 1_000

/** A replica that is shown as ready and reachable has a process, and a process has a replica. */
export function contradictedReplicas(observed: Observation): Violation[] {
  const quiet = createQuiet(observed)
  const lives = new Map(observed.lives.map((life) => [`${life.node} ${life.replica}`, life]))
  return observed.shownReplicas.flatMap((shown): Violation[] => {
    const { controller, node, replica } = shown
    const contradicted = contradicts(shown, lives.get(`${node} ${replica}`))
    const ms = longestCommon([{ from: shown.seenAt, to: shown.to }], contradicted, quiet(controller, node))
    if (ms <= contradictionMs) return []
    const what =
      shown.shown === 'ready'
        ? `controller ${controller} showed it as ready for ${Math.round(ms)} ms, and no process of it ran`
        : `controller ${controller} did not show it for ${Math.round(ms)} ms, and its process ran`
    return [{ rule: 'replica contradicted', what, about: { node, replica } }]
  })
}

/** When the truth was certainly another one. */
function contradicts({ shown }: ShownReplica, life: Life | undefined): Span[] {
  if (shown === 'absent') return life === undefined ? [] : [life]
  if (shown !== 'ready') return []
  if (life === undefined) return [{ from: 0, to: Infinity }]
  return [
    { from: 0, to: life.after },
    { from: life.before, to: Infinity },
  ]
}

/** The listed version of a backend is the one on disk. */
export function contradictedBackends(observed: Observation): Violation[] {
  const quiet = createQuiet(observed)
  const disks = Map.groupBy(observed.disk, ({ node, backend }) => `${node} ${backend}`)
  return observed.shownBackends.flatMap((shown): Violation[] => {
    const { controller, node, backend, digest } = shown
    const others = (disks.get(`${node} ${backend}`) ?? []).filter((record) => !isListed(record, shown))
    return others.flatMap((record) => {
      const ms = longestCommon([{ from: shown.seenAt, to: shown.to }], [record], quiet(controller, node))
      if (ms <= contradictionMs) return []
      const what = `controller ${controller} listed ${digest ?? 'nothing'} for ${Math.round(ms)} ms, and on disk was ${record.digest ?? 'nothing'}`
      return [{ rule: 'backend contradicted', what, about: { node, backend } }]
    })
  })
}

const isListed = (record: OnDisk, { digest }: ShownBackend): boolean => record.digest === digest

/** In the end every model that exists is ready on every controller, and none else is there. */
export function lostModels({ controllers, models, finalModels }: Observation): Violation[] {
  const wrong = (what: string): Violation => ({ rule: 'model lost', what, about: {} })
  return Array.from({ length: controllers }, (_, controller): Violation[] => {
    const seen = finalModels.filter((each) => each.controller === controller)
    return [
      ...models
        .filter((model) => !seen.some((each) => each.model === model))
        .map((model) => wrong(`controller ${controller} does not know ${model}`)),
      ...seen.flatMap(({ model, state, replicasReady, replicasDesired, failure }) => {
        if (!models.includes(model)) return [wrong(`controller ${controller} shows ${model}, which was deleted`)]
        if (state === 'ready' && replicasReady === replicasDesired) return []
        return [wrong(`${model} is ${state} with ${replicasReady} of ${replicasDesired} replicas${failure === null ? '' : `: ${failure}`}`)]
      }),
    ]
  }).flat()
}

/** In the end the processes are the replicas that controllers show as ready. */
export function differingProcesses({ lives, shownReplicas }: Observation): Violation[] {
  const last = new Map<string, ShownReplica>()
  for (const shown of shownReplicas) {
    const key = `${shown.controller} ${shown.node} ${shown.replica}`
    if ((last.get(key)?.to ?? -1) <= shown.to) last.set(key, shown)
  }
  const running = lives.filter(({ before }) => before === Infinity)
  return running.flatMap(({ node, replica }): Violation[] => {
    const shown = [...last.values()].filter((each) => each.node === node && each.replica === replica)
    if (shown.length > 0 && shown.every((each) => each.shown === 'ready')) return []
    const states = shown.map((each) => `controller ${each.controller}: ${each.shown}`).join(', ')
    return [
      {
        rule: 'process left',
        what: `its process runs in the end; ${states === '' ? 'no controller showed it' : states}`,
        about: { node, replica },
      },
    ]
  })
}
