// What saving a configuration would do to what runs. Pure.
import type { ModelConfig, ModelView } from '@muster/protocol'
import { plural } from '../../format/amounts.ts'

export interface SaveMeaning {
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
