// The files of a model, as its configuration names them.
import type { ModelView } from '@muster/protocol'
import { ShortId } from '../../components/copy.tsx'
import { Empty } from '../../components/loaded.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { UploadFile } from './upload-file.tsx'

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
