// The files of a model's configuration, and the upload of a file.
import { useMutation } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { formatBytes, formatBytesOf, modelRoutes, type ModelView, routeUrl } from '@muster/protocol'
import { ApiFailure, parseJson, toApiFailure } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Failed } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Bar } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { plural } from '../../format.ts'
import { useModelAction } from './model-actions.tsx'

export function FilesTab({ model }: { readonly model: ModelView }) {
  const { files } = model.config
  return (
    <div className="flex flex-col gap-4">
      {files.length === 0 ? (
        <Empty title="No files configured.">
          <p>List files under “files” in the configuration, or upload one.</p>
        </Empty>
      ) : (
        <Table label="Files" columns={['File', 'Source', 'SHA-256']}>
          {files.map(({ filename, uri, sha256 }) => (
            <Row key={filename} aria-label={filename}>
              <Cell className="max-w-72 font-medium [overflow-wrap:anywhere]">{filename}</Cell>
              <Cell className="font-mono [overflow-wrap:anywhere]">{uri}</Cell>
              <Cell>{sha256 === undefined ? <span className="text-soft">not set</span> : <ShortId id={sha256} what="SHA-256" />}</Cell>
            </Row>
          ))}
        </Table>
      )}
      {files.length > 0 && <PrefetchFiles model={model} />}
      <UploadFile model={model} />
    </div>
  )
}

function PrefetchFiles({ model }: { readonly model: ModelView }) {
  const prefetch = useModelAction('prefetch')
  return (
    <Section title="Prefetch">
      <p className="text-soft">
        Fetches the files to every node that the model may run on, without starting it. The Placement tab does it for one node.
      </p>
      <div>
        <Button isBusy={prefetch.isPending} onClick={() => prefetch.mutate(model.name)}>
          Prefetch to all nodes
        </Button>
      </div>
    </Section>
  )
}

function UploadFile({ model }: { readonly model: ModelView }) {
  const id = useId()
  const [file, setFile] = useState<File | null>(null)
  const [sent, setSent] = useState(0)
  const upload = useMutation({ mutationFn: (chosen: File) => send(model, chosen, setSent) })
  return (
    <Section title="Upload a file">
      <p className="text-soft">The file is stored on two nodes and added to the configuration as a new revision.</p>
      <div className="flex flex-wrap items-center gap-2">
        <label htmlFor={id} className="sr-only">
          File to upload
        </label>
        <input
          id={id}
          type="file"
          className="max-w-full text-soft file:mr-2 file:min-h-7 file:rounded-md file:border file:bg-raised file:px-2.5 file:py-0.5 file:text-ink hover:file:bg-sunken"
          onChange={({ target }) => {
            setFile(target.files?.[0] ?? null)
            setSent(0)
            upload.reset()
          }}
        />
        <Button disabled={file === null} isBusy={upload.isPending} onClick={() => file !== null && upload.mutate(file)}>
          {file === null ? 'Upload' : `Upload ${formatBytes(file.size)}`}
        </Button>
      </div>
      <div className="min-h-8 max-w-xl">
        {upload.isPending && file !== null && (
          <>
            <p className="text-soft">{formatBytesOf(sent, file.size)}</p>
            <Bar percent={(sent / Math.max(1, file.size)) * 100} label={`Uploading ${file.name}`} tone="work" />
          </>
        )}
        {upload.data !== undefined && (
          <p role="status" className="text-good [overflow-wrap:anywhere]">
            ✓ Uploaded {upload.data.filename} ({formatBytes(upload.data.size)}) to {plural(upload.data.nodes.length, 'node')}:{' '}
            {upload.data.digest}
          </p>
        )}
      </div>
      {upload.error !== null && <Failed title="Upload failed" error={upload.error} />}
    </Section>
  )
}

const UploadResult = modelRoutes.upload.response

/** Uses XMLHttpRequest because fetch reports no upload progress. */
function send({ name }: ModelView, file: File, onSent: (bytes: number) => void) {
  return new Promise<NonNullable<ReturnType<NonNullable<typeof UploadResult>['parse']>>>((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('PUT', routeUrl(new URL(location.origin), modelRoutes.upload, { params: { name, filename: file.name } }))
    request.setRequestHeader('content-type', 'application/octet-stream')
    request.upload.addEventListener('progress', ({ loaded }) => onSent(loaded))
    request.addEventListener('load', () => {
      const uploaded = request.status === 200 ? UploadResult?.safeParse(parseJson(request.responseText)).data : undefined
      return uploaded === undefined ? reject(toApiFailure(request.status, request.responseText)) : resolve(uploaded)
    })
    request.addEventListener('error', () =>
      reject(new ApiFailure({ status: 0, code: 'unreachable', message: 'connection lost; upload the file again' })),
    )
    request.send(file)
  })
}
