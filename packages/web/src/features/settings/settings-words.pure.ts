// Texts and filters of the settings page: bus, galleries, configuration, scopes of keys.
import type { GalleryView, LeftOut, Scope, SettingChangeView, SettingView } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { searchFor } from '../../format.ts'

export interface BusStatus {
  readonly kind: 'local' | 'nats'
  readonly connected: boolean
  readonly open?: boolean | undefined
}
export function describeBus({ kind, connected, open }: BusStatus): { tone: Tone; word: string; sentence: string } {
  if (!connected)
    return {
      tone: 'bad',
      word: 'not connected',
      sentence: 'This controller cannot reach NATS, and so cannot reach its workers. See its log for the reason.',
    }
  if (kind === 'local')
    return {
      tone: 'good',
      word: 'in-process',
      sentence: 'Only workers of this process are connected. To add others, start with --nats-url (see docs/install.md).',
    }
  if (open === true)
    return {
      tone: 'wait',
      word: 'NATS, open',
      sentence:
        'Any client that reaches it can impersonate nodes. Run “muster nats-config” for a configuration that admits only approved nodes, and pass its seed to controllers as MUSTER_NATS_ACCOUNT_SEED_FILE.',
    }
  return { tone: 'good', word: 'NATS, connected', sentence: 'Each node has its own credentials.' }
}

export interface GalleryProblem {
  readonly gallery: string
  readonly message: string
}

export const galleryOrigin: Readonly<Record<GalleryView['from'], string>> = {
  builtin: 'built in',
  setting: 'controller setting (--gallery, --model-gallery)',
  api: 'added here',
}

interface GalleryState {
  readonly tone: Tone
  readonly word: string
  readonly sentence: string | null
}

export interface ReadGalleries {
  readonly problems: readonly GalleryProblem[]
  readonly left_out: readonly LeftOut[]
}

/** `read` is null until the galleries were read. */
export function describeGallery(name: string, read: ReadGalleries | null): GalleryState {
  if (read === null) return { tone: 'idle', word: 'loading', sentence: null }
  const own = read.problems.filter(({ gallery }) => gallery === name).map(({ message }) => message)
  if (own.length > 0) return { tone: 'bad', word: 'error', sentence: own.join(' ') }
  const left = read.left_out.find(({ gallery }) => gallery === name)
  if (left === undefined) return { tone: 'good', word: 'ok', sentence: null }
  return { tone: 'wait', word: `${left.count} left out`, sentence: leftOutLines([left]).slice(0, 3).join(' ') }
}

/** One line per entry that cannot be read; entries beyond the listed ones are counted. */
export function leftOutLines(leftOut: readonly LeftOut[]): string[] {
  return leftOut.flatMap(({ gallery, count, entries }) => [
    ...entries.map(({ index, name, message }) => `${gallery}: entry ${index + 1}${name === '' ? '' : ` (${name})`}: ${message}.`),
    ...(count > entries.length ? [`${gallery}: ${count - entries.length} more.`] : []),
  ])
}

export const isChanged = ({ value, default: standard }: SettingView): boolean => value !== standard

/** Why a setting that changes at run time cannot be changed here; null: it can, or it is one of the start. */
export const whyFixed = ({
  is_runtime: isRuntime,
  pinned_by: pinned = null,
}: Pick<SettingView, 'is_runtime' | 'pinned_by'>): string | null =>
  isRuntime !== true || pinned === null ? null : `Pinned by ${pinned}: change it there.`

export const describeChange = ({ before, after }: Pick<SettingChangeView, 'before' | 'after'>): string =>
  `${before ?? 'default'} → ${after ?? 'default'}`

/** Settings that match the search, changed ones first. */
export function chooseSettings(settings: readonly SettingView[], search: string): readonly SettingView[] {
  const isFound = searchFor(search)
  return settings
    .filter(({ flag, value, from, description }) => isFound(`--${flag}`, value, from, description))
    .toSorted((a, b) => Number(isChanged(b)) - Number(isChanged(a)) || (a.flag < b.flag ? -1 : a.flag > b.flag ? 1 : 0))
}

export const scopeWords: Readonly<Record<Scope, string>> = {
  inference: 'can use models through /v1 only',
  read: 'can read everything and change nothing',
  admin: 'can do everything, including creating keys',
}

export const scopeChoices = (['inference', 'read', 'admin'] as const).map((value) => ({ value, label: value, hint: scopeWords[value] }))
