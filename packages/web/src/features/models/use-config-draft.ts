// A configuration that somebody changes, and the one it was made from. Without a change it follows what is saved.
import type { ModelView } from '@muster/protocol'
import { useState } from 'react'
import { isSameConfig } from './save-meaning.ts'
import { toYaml } from './to-yaml.ts'

interface Draft {
  readonly text: string
  /** What it was made from. */
  readonly base: ModelView
}

export interface ConfigDraft {
  readonly text: string
  readonly base: ModelView
  readonly isDirty: boolean
  /** Somebody else saved another one since. */
  readonly isOutdated: boolean
  /** What was put aside for the newer one. */
  readonly aside: string | null
  change(text: string): void
  discard(): void
  /** What was sent is saved; what was typed since stays, as a change of it. */
  settle(sent: string, saved: ModelView): void
  /** The newer one is shown; what was typed is put aside. */
  takeNewer(): void
  /** What is typed stays, and is meant to replace the newer one. */
  keepMine(): void
  putBack(): void
}

export function useConfigDraft(model: ModelView): ConfigDraft {
  const [draft, setDraft] = useState<Draft | null>(null)
  const [aside, setAside] = useState<string | null>(null)
  const asSaved = toYaml(model.config)
  const text = draft?.text ?? asSaved
  const base = draft?.base ?? model
  return {
    ...{ text, base, aside },
    isDirty: draft !== null && text !== toYaml(base.config),
    isOutdated: draft !== null && !isSameConfig(base.config, model.config),
    change: (next) => setDraft({ text: next, base }),
    discard: () => setDraft(null),
    settle: (sent, saved) => setDraft((now) => (now === null || now.text === sent ? null : { text: now.text, base: saved })),
    takeNewer() {
      setAside(text)
      setDraft(null)
    },
    keepMine: () => setDraft({ text, base: model }),
    putBack() {
      if (aside !== null) setDraft({ text: aside, base: model })
      setAside(null)
    },
  }
}
