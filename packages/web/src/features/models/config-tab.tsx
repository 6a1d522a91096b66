// The configuration of a model, to be read and changed as YAML.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { modelRoutes, type ModelView } from '@muster/protocol'
import { ApiFailure, call } from '../../api/client.ts'
import { modelsQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Failed } from '../../components/loaded.tsx'
import { useNotices } from '../../components/notices.tsx'
import { shortId } from '../../format.ts'
import { ConfigEditor, UnsavedGuard, useValidation } from './config-editor.tsx'
import { keepSaved } from './model-actions.tsx'
import { isSameConfig, saveMeaning } from './model-words.pure.ts'
import { toYaml } from './config-yaml.pure.ts'

export function ConfigTab({ model }: { readonly model: ModelView }) {
  const draft = useConfigDraft(model)
  const validation = useValidation(draft.text, model.name)
  const save = useSave(model, draft)
  const meaning = validation.state === 'valid' ? saveMeaning(model, validation) : null
  const isConflict = draft.isOutdated || isRevisionConflict(save.error)
  return (
    <div className="flex flex-col gap-3">
      <UnsavedGuard isDirty={draft.isDirty && !save.isPending} what={`the configuration of ${model.name}`} />
      {isConflict && <Conflict model={model} draft={draft} onChosen={() => save.reset()} />}
      {draft.aside !== null && <Aside draft={draft} />}
      <ConfigEditor text={draft.text} validation={validation} onChange={draft.change} />
      {save.error !== null && !isRevisionConflict(save.error) && <Failed title="It was not saved." error={save.error} />}
      <div className="flex flex-wrap items-center gap-2">
        <Button
          look="primary"
          isBusy={save.isPending}
          disabled={!draft.isDirty || isConflict || meaning === null || meaning.changes === 'nothing'}
          onClick={() => save.mutate(draft.text)}
        >
          Save
        </Button>
        <Button disabled={!draft.isDirty} onClick={draft.discard}>
          Discard changes
        </Button>
        <p className="min-w-0 text-soft [overflow-wrap:anywhere]">
          {draft.isDirty ? meaning?.sentence : `As saved: revision ${shortId(model.revision)}.`}
        </p>
      </div>
    </div>
  )
}

const isRevisionConflict = (error: Error | null): boolean => error instanceof ApiFailure && error.code === 'revision_conflict'

function useSave(model: ModelView, draft: ConfigDraft) {
  const queries = useQueryClient()
  const tell = useNotices()
  return useMutation({
    mutationFn: (text: string) =>
      call(modelRoutes.put, {
        params: { name: model.name },
        headers: { 'if-match': draft.base.revision },
        content: { type: 'application/yaml', body: text },
      }),
    onSuccess(saved, sent) {
      keepSaved(queries, saved)
      draft.settle(sent, saved)
      tell('good', `${saved.name} is saved.`)
    },
    onError: (error) => isRevisionConflict(error) && void queries.invalidateQueries({ queryKey: modelsQuery.queryKey }),
  })
}

function Conflict({ model, draft, onChosen }: { readonly model: ModelView; readonly draft: ConfigDraft; readonly onChosen: () => void }) {
  const choose = (act: () => void) => () => {
    act()
    onChosen()
  }
  return (
    <div role="alert" className="flex flex-col items-start gap-2 rounded-md border border-wait p-3">
      <p className="font-medium text-wait">Somebody else changed {model.name} while you did.</p>
      <p>Your text is still here, and nothing was saved. The newer one has the revision {shortId(model.revision)}.</p>
      <div className="flex flex-wrap gap-2">
        <Button onClick={choose(draft.takeNewer)}>Load the newer one</Button>
        <Button onClick={choose(draft.keepMine)}>Replace the newer one by mine</Button>
      </div>
    </div>
  )
}

const Aside = ({ draft }: { readonly draft: ConfigDraft }) => (
  <div className="flex flex-col items-start gap-2 rounded-md border p-3">
    <p>This is the newer configuration. What you had written is put aside:</p>
    <details className="w-full">
      <summary>Show it</summary>
      <pre className="mt-2 max-h-72 overflow-auto rounded-md bg-sunken p-2 font-mono text-[13px]">{draft.aside}</pre>
    </details>
    <Button onClick={draft.putBack}>Put mine back</Button>
  </div>
)

interface Draft {
  readonly text: string
  /** What it was made from. */
  readonly base: ModelView
}

interface ConfigDraft {
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

function useConfigDraft(model: ModelView): ConfigDraft {
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
