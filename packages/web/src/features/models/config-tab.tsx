// The configuration of a model as YAML, with a draft that survives changes by others.
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
import { cacheSavedModel } from './model-actions.tsx'
import { isSameConfig, describeSave } from './model-words.pure.ts'
import { toYaml } from './config-yaml.pure.ts'

export function ConfigTab({ model }: { readonly model: ModelView }) {
  const draft = useConfigDraft(model)
  const validation = useValidation(draft.text, model.name)
  const save = useSave(model, draft)
  const effect = validation.state === 'valid' ? describeSave(model, validation) : null
  const isConflict = draft.isOutdated || isRevisionConflict(save.error)
  return (
    <div className="flex flex-col gap-3">
      <UnsavedGuard isDirty={draft.isDirty && !save.isPending} what={`the configuration of ${model.name}`} />
      {isConflict && <Conflict model={model} draft={draft} onResolve={() => save.reset()} />}
      {draft.stash !== null && <Stash draft={draft} />}
      <ConfigEditor text={draft.text} validation={validation} onChange={draft.change} />
      {save.error !== null && !isRevisionConflict(save.error) && <Failed title="Could not save" error={save.error} />}
      <div className="flex flex-wrap items-center gap-2">
        <Button
          look="primary"
          isBusy={save.isPending}
          disabled={!draft.isDirty || isConflict || effect === null || effect.changes === 'nothing'}
          onClick={() => save.mutate(draft.text)}
        >
          Save
        </Button>
        <Button disabled={!draft.isDirty} onClick={draft.discard}>
          Discard changes
        </Button>
        <p className="min-w-0 text-soft [overflow-wrap:anywhere]">
          {draft.isDirty ? effect?.sentence : `Saved. Revision ${shortId(model.revision)}.`}
        </p>
      </div>
    </div>
  )
}

const isRevisionConflict = (error: Error | null): boolean => error instanceof ApiFailure && error.code === 'revision_conflict'

function useSave(model: ModelView, draft: ConfigDraft) {
  const queries = useQueryClient()
  const notify = useNotices()
  return useMutation({
    mutationFn: (text: string) =>
      call(modelRoutes.put, {
        params: { name: model.name },
        query: {},
        headers: { 'if-match': draft.base.revision },
        content: { type: 'application/yaml', body: text },
      }),
    onSuccess(saved, sent) {
      cacheSavedModel(queries, saved)
      draft.settle(sent, saved)
      notify('good', `Saved ${saved.name}`)
    },
    onError: (error) => isRevisionConflict(error) && void queries.invalidateQueries({ queryKey: modelsQuery.queryKey }),
  })
}

function Conflict({ model, draft, onResolve }: { readonly model: ModelView; readonly draft: ConfigDraft; readonly onResolve: () => void }) {
  const resolve = (action: () => void) => () => {
    action()
    onResolve()
  }
  return (
    <div role="alert" className="flex flex-col items-start gap-2 rounded-md border border-wait p-3">
      <p className="font-medium text-wait">{model.name} was changed by someone else</p>
      <p>Your changes are not saved. The latest revision is {shortId(model.revision)}.</p>
      <div className="flex flex-wrap gap-2">
        <Button onClick={resolve(draft.loadLatest)}>Load latest version</Button>
        <Button onClick={resolve(draft.overwrite)}>Overwrite with my changes</Button>
      </div>
    </div>
  )
}

const Stash = ({ draft }: { readonly draft: ConfigDraft }) => (
  <div className="flex flex-col items-start gap-2 rounded-md border p-3">
    <p>This is the latest version. Your changes were set aside.</p>
    <details className="w-full">
      <summary>Show my changes</summary>
      <pre className="mt-2 max-h-72 overflow-auto rounded-md bg-sunken p-2 font-mono text-[13px]">{draft.stash}</pre>
    </details>
    <Button onClick={draft.restore}>Restore my changes</Button>
  </div>
)

interface Draft {
  readonly text: string
  /** The saved model that the draft started from. */
  readonly base: ModelView
}

interface ConfigDraft {
  readonly text: string
  readonly base: ModelView
  readonly isDirty: boolean
  /** Another version was saved since. */
  readonly isOutdated: boolean
  /** Changes set aside while the latest version is shown. */
  readonly stash: string | null
  change(text: string): void
  discard(): void
  /** Called after a save; changes typed meanwhile stay, based on the saved model. */
  settle(sent: string, saved: ModelView): void
  loadLatest(): void
  overwrite(): void
  restore(): void
}

function useConfigDraft(model: ModelView): ConfigDraft {
  const [draft, setDraft] = useState<Draft | null>(null)
  const [stash, setStash] = useState<string | null>(null)
  const text = draft?.text ?? toYaml(model.config)
  const base = draft?.base ?? model
  return {
    ...{ text, base, stash },
    isDirty: draft !== null && text !== toYaml(base.config),
    isOutdated: draft !== null && !isSameConfig(base.config, model.config),
    change: (next) => setDraft({ text: next, base }),
    discard: () => setDraft(null),
    settle: (sent, saved) => setDraft((now) => (now === null || now.text === sent ? null : { text: now.text, base: saved })),
    loadLatest() {
      setStash(text)
      setDraft(null)
    },
    overwrite: () => setDraft({ text, base: model }),
    restore() {
      if (stash !== null) setDraft({ text: stash, base: model })
      setStash(null)
    },
  }
}
