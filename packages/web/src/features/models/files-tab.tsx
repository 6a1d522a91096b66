// The files of a model, as its configuration names them.
import { useMutation } from '@tanstack/react-query'
import { useId, useState } from 'react'
import { modelRoutes, type ModelView, routeUrl } from '@muster/protocol'
import { ApiFailure, parseJson, refusalOf } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { ShortId } from '../../components/copy.tsx'
import { Empty, Failed } from '../../components/loaded.tsx'
import { Section } from '../../components/page.tsx'
import { Bar } from '../../components/state.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { formatBytes, formatBytesOf, plural } from '../../format.ts'

export function FilesTab({ model }: { readonly model: ModelView }) {
  const { files } = model.config
  return (
    <div className="flex flex-col gap-4">
      {files.length === 0 ? (
        <Empty title="Its configuration names no files.">
          <p>Name them under “files” of its configuration, or send one.</p>
        </Empty>
      ) : (
        <Table label="Files" columns={['File', 'From', 'SHA-256']}>
          {files.map(({ filename, uri, sha256 }) => (
            <Row key={filename} aria-label={filename}>
              <Cell className="max-w-72 font-medium [overflow-wrap:anywhere]">{filename}</Cell>
              <Cell className="font-mono [overflow-wrap:anywhere]">{uri}</Cell>
              <Cell>{sha256 === undefined ? <span className="text-soft">not given</span> : <ShortId id={sha256} what="SHA-256" />}</Cell>
            </Row>
          ))}
        </Table>
      )}
      <UploadFile model={model} />
    </div>
  )
}

function UploadFile({ model }: { readonly model: ModelView }) {
  const id = useId()
  const [file, setFile] = useState<File | null>(null)
  const [sent, setSent] = useState(0)
  const upload = useMutation({ mutationFn: (chosen: File) => send(model, chosen, setSent) })
  return (
    <Section title="Send a file">
      <p className="text-soft">It is kept by two nodes and becomes part of the configuration: a new revision.</p>
      <div className="flex flex-wrap items-center gap-2">
        <label htmlFor={id} className="sr-only">
          File to send
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
          {file === null ? 'Send' : `Send ${formatBytes(file.size)}`}
        </Button>
      </div>
      <div className="min-h-8 max-w-xl">
        {upload.isPending && file !== null && (
          <>
            <p className="text-soft">{formatBytesOf(sent, file.size)}</p>
            <Bar percent={(sent / Math.max(1, file.size)) * 100} label={`Sending ${file.name}`} tone="work" />
          </>
        )}
        {upload.data !== undefined && (
          <p role="status" className="text-good [overflow-wrap:anywhere]">
            ✓ {upload.data.filename}, {formatBytes(upload.data.size)}, is kept by {plural(upload.data.nodes.length, 'node')}:{' '}
            {upload.data.digest}
          </p>
        )}
      </div>
      {upload.error !== null && <Failed title="It was not kept." error={upload.error} />}
    </Section>
  )
}

const Uploaded = modelRoutes.upload.response

function send({ name }: ModelView, file: File, onSent: (bytes: number) => void) {
  return new Promise<NonNullable<ReturnType<NonNullable<typeof Uploaded>['parse']>>>((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('PUT', routeUrl(new URL(location.origin), modelRoutes.upload, { params: { name, filename: file.name } }))
    request.setRequestHeader('content-type', 'application/octet-stream')
    request.upload.addEventListener('progress', ({ loaded }) => onSent(loaded))
    request.addEventListener('load', () => {
      const uploaded = request.status === 200 ? Uploaded?.safeParse(parseJson(request.responseText)).data : undefined
      return uploaded === undefined ? reject(refusalOf(request.status, request.responseText)) : resolve(uploaded)
    })
    request.addEventListener('error', () =>
      reject(new ApiFailure({ status: 0, code: 'unreachable', message: 'the connection broke off; send it again' })),
    )
    request.send(file)
  })
}
