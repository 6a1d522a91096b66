// How the bus stands, and what to do about it.
import type { GalleryView, Scope, SettingView } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { searchFor } from '../../format.ts'

export interface BusStatus {
  readonly kind: 'local' | 'nats'
  readonly connected: boolean
  readonly open?: boolean | undefined
}
export interface BusWords {
  readonly tone: Tone
  readonly word: string
  readonly sentence: string
}

export function busSentence({ kind, connected, open }: BusStatus): BusWords {
  if (!connected)
    return { tone: 'bad', word: 'not connected', sentence: 'This controller can’t reach NATS: no worker hears it. Its log has the reason.' }
  if (kind === 'local')
    return {
      tone: 'good',
      word: 'in the process',
      sentence: 'Only workers of this very process are on it. For others, start with --nats-url (see docs/install.md).',
    }
  if (open === true)
    return {
      tone: 'wait',
      word: 'NATS, open',
      sentence:
        'Whoever reaches it can speak for every node. “muster nats-config” makes one that lets in only approved nodes; give controllers its seed as MUSTER_NATS_ACCOUNT_SEED_FILE.',
    }
  return { tone: 'good', word: 'NATS, connected', sentence: 'Nobody speaks for a node but the node.' }
}

export interface GalleryProblem {
  readonly gallery: string
  readonly message: string
}

export const galleryOrigin: Readonly<Record<GalleryView['from'], string>> = {
  builtin: 'comes with Muster',
  setting: 'setting of a controller (--gallery, --model-gallery)',
  api: 'added here',
}

interface GalleryState {
  readonly tone: Tone
  readonly word: string
  readonly sentence: string | null
}

/** `problems` is null until somebody has looked. */
export function galleryState(name: string, problems: readonly GalleryProblem[] | null): GalleryState {
  if (problems === null) return { tone: 'idle', word: 'being read', sentence: null }
  const own = problems.filter(({ gallery }) => gallery === name).map(({ message }) => message)
  return own.length === 0 ? { tone: 'good', word: 'readable', sentence: null } : { tone: 'bad', word: 'problem', sentence: own.join(' ') }
}

export const isChanged = ({ value, default: standard }: SettingView): boolean => value !== standard

/** Those that differ from the default first; all that hold the words, wherever. */
export function chooseSettings(settings: readonly SettingView[], search: string): readonly SettingView[] {
  const isFound = searchFor(search)
  return settings
    .filter(({ flag, value, from, description }) => isFound(`--${flag}`, value, from, description))
    .toSorted((a, b) => Number(isChanged(b)) - Number(isChanged(a)) || (a.flag < b.flag ? -1 : a.flag > b.flag ? 1 : 0))
}

export const scopes: readonly Scope[] = ['inference', 'read', 'admin']

export const scopeWords: Readonly<Record<Scope, string>> = {
  inference: 'may use models by /v1, and nothing else',
  read: 'may look at everything, and change nothing',
  admin: 'may do everything, also make keys',
}
