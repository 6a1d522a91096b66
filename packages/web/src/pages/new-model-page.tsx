// Creates a model from YAML.
import { modelRoutes, type ModelName } from '@muster/protocol'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { call } from '../api/client.ts'
import { modelsQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { Failed } from '../components/loaded.tsx'
import { useNotices } from '../components/notices.tsx'
import { Page } from '../components/page.tsx'
import { ConfigEditor, exampleConfig, UnsavedGuard, useValidation } from '../features/models/config-editor.tsx'

export function NewModelPage() {
  const [text, setText] = useState(exampleConfig)
  const validation = useValidation(text, null)
  const models = useQuery(modelsQuery).data
  const create = useCreate()
  const name = validation.state === 'valid' ? validation.config.name : null
  const isTaken = models?.some((model) => model.name === name) ?? false
  return (
    <Page title="New model" sentence="Define the name, backend and files.">
      <UnsavedGuard isDirty={text !== exampleConfig && !create.isPending && !create.isSuccess} what="the new model" />
      <ConfigEditor text={text} validation={validation} onChange={setText} />
      {create.error !== null && <Failed title="Could not create the model" error={create.error} />}
      <div className="flex flex-wrap items-center gap-2">
        <Button
          look="primary"
          isBusy={create.isPending || create.isSuccess}
          disabled={name === null || isTaken}
          onClick={() => name !== null && create.mutate({ name, text })}
        >
          <span className="max-w-72 truncate">{name === null ? 'Create' : `Create ${name}`}</span>
        </Button>
        <p className={isTaken ? 'text-bad' : 'text-soft'}>
          {isTaken ? `A model named ${name} already exists.` : 'A new model is not loaded unless its scheduling has a minimum.'}
        </p>
      </div>
    </Page>
  )
}

function useCreate() {
  const queries = useQueryClient()
  const navigate = useNavigate()
  const notify = useNotices()
  return useMutation({
    mutationFn: ({ name, text }: { name: ModelName; text: string }) =>
      call(modelRoutes.put, { params: { name }, query: {}, content: { type: 'application/yaml', body: text } }),
    async onSuccess({ name }) {
      await queries.invalidateQueries({ queryKey: modelsQuery.queryKey })
      notify('good', `Created ${name}`)
      await navigate({ to: '/models/$name', params: { name }, ignoreBlocker: true })
    },
  })
}
