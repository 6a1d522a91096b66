// A file that somebody sends for a model: to two nodes at once where there are two, and into its configuration.
import type { Clock, Log } from '@muster/host'
import { FleetError, type ModelConfig, type ModelName } from '@muster/protocol'
import type { FileHolderStore } from '../store/file-holders.ts'
import type { ModelStore } from '../store/models.ts'
import { fanOut, type FannedOut } from './fan-out.ts'
import { checkConfig } from './parse-config.ts'
import { revisionOf } from './revision.ts'

export interface UploadDeps {
  readonly holders: Pick<FileHolderStore, 'uploadTargets'>
  readonly models: Pick<ModelStore, 'addUpload'>
  readonly controller: string
  readonly clock: Clock
  readonly log: Log
}

export interface Upload {
  readonly model: ModelName
  readonly filename: string
  readonly sizeBytes: number | null
  readonly body: AsyncIterable<Uint8Array>
  readonly signal: AbortSignal
}
export type ReceiveUpload = (upload: Upload) => Promise<FannedOut>

/** One may be lost. */
const copies = 2

export function createReceiveUpload({ holders, models, controller, clock, log }: UploadDeps): ReceiveUpload {
  return async ({ model, filename, sizeBytes, body, signal }) => {
    const targets = await holders.uploadTargets({ limit: copies, sizeBytes: sizeBytes ?? 0 })
    if (targets.length === 0) throw noCapacity(sizeBytes)
    const sent = await fanOut(body, { model, targets, controller, sizeBytes, clock, signal })
    for (const { target, reason } of sent.failed) log.warn('an upload has one copy less', { model, filename, node: target.id, reason })
    const { digest, sizeBytes: size, kept } = sent
    const isThere = await models.addUpload({ model, filename, digest, size, nodes: kept.map(({ id }) => id) }, (config) => {
      const changed = withUpload(config, { filename, digest })
      return { config: changed, revision: revisionOf(changed) }
    })
    if (!isThere) throw new FleetError({ code: 'not_found', retry: 'never', message: `model ${model} was deleted while its file was sent` })
    return sent
  }
}

/** The file of that name is what was sent, whatever it was before. */
function withUpload(config: ModelConfig, { filename, digest }: { filename: string; digest: string }): ModelConfig {
  const file = { uri: `upload:${digest}`, filename, sha256: digest.slice('sha256:'.length) }
  const isNamed = config.files.some((each) => each.filename === filename)
  const files = isNamed ? config.files.map((each) => (each.filename === filename ? file : each)) : [...config.files, file]
  return checkConfig({ ...config, files }, { name: config.name, lineOf: () => null })
}

const noCapacity = (sizeBytes: number | null): FleetError =>
  new FleetError({
    code: 'no_capacity',
    retry: 'backoff',
    message: `no healthy node with a gateway has room for ${sizeBytes === null ? 'the file' : `${sizeBytes} bytes`}; approve one, or free some disk`,
  })
