// The files of a model for the load command of one node: each with the other nodes that have the same content, and the tokens for
// their gateways.
import { mintGatewayToken } from '@muster/host'
import { Digest, gatewayPaths, gatewayScope, type ModelConfig, type ModelFile, type NodeId } from '@muster/protocol'
import type { FileHolder, FileHolderStore } from '../store/inventory.ts'

interface FilesForDeps {
  /** The node that loads the model. */
  readonly nodeId: NodeId
  /** Reachable nodes with their files. */
  readonly holders: readonly FileHolder[]
  /** Named in the tokens. */
  readonly controller: string
}

/** A worker tries this many before it uses the source. */
const maxPeers = 4
const uploadScheme = 'upload:sha256:'

type Files = Pick<ModelConfig, 'files'>

export function createFilesFor({ holders, controller }: { holders: Pick<FileHolderStore, 'list'>; controller: string }) {
  return async ({ files }: Files, nodeId: NodeId): Promise<ModelFile[]> => {
    const digests = files.flatMap((file) => digestOf(file) ?? [])
    return filesFor({ files }, { nodeId, holders: digests.length === 0 ? [] : await holders.list(digests), controller })
  }
}

/** Null: without a digest other nodes cannot be compared. */
function digestOf({ uri, sha256 }: ModelConfig['files'][number]): Digest | null {
  const hex = uri.startsWith(uploadScheme) ? uri.slice(uploadScheme.length) : sha256
  return hex === undefined ? null : Digest.parse(`sha256:${hex}`)
}

/** Pure. */
export function filesFor({ files }: Files, { nodeId, holders, controller }: FilesForDeps): ModelFile[] {
  return files.map((file) => {
    const digest = digestOf(file)
    if (digest === null) return file
    const having = holders.filter((holder) => holder.files.has(digest))
    const size = having[0]?.files.get(digest)
    const peers = having
      .filter(({ id, gatewayUrl }) => id !== nodeId && gatewayUrl !== '')
      .slice(0, maxPeers)
      .map(({ id, gatewayUrl, gatewaySecret }) => ({
        url: `${gatewayUrl.replace(/\/+$/, '')}${gatewayPaths.file(digest)}`,
        authorization: `Bearer ${mintGatewayToken({ secret: gatewaySecret.reveal(), nodeId: id, scope: gatewayScope.file(digest), controller })}`,
      }))
    return {
      ...file,
      sha256: digest.slice('sha256:'.length),
      ...(size === undefined ? {} : { size }),
      ...(peers.length === 0 ? {} : { peers }),
    }
  })
}
