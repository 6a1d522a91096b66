// Galleries in words: where one comes from, and whether it can be read.
import type { GalleryView } from '@muster/protocol'
import type { Tone } from '../../components/state-mark.tsx'

export interface GalleryProblem {
  readonly gallery: string
  readonly message: string
}

export const galleryOrigin: Readonly<Record<GalleryView['from'], string>> = {
  builtin: 'comes with Muster',
  setting: 'setting of a controller (--gallery, --model-gallery)',
  api: 'added here',
}

export interface GalleryState {
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
