// The files of a model as one node is told of them: each with the other nodes that have the very bytes, and what proves
// at their gateways that it may have that file. Pure.
import { mintGatewayToken } from '@muster/host'
import { Digest, gatewayPaths, gatewayScope, type ModelConfig, type ModelFile, type NodeId } from '@muster/protocol'

export interface FileHolder {
  readonly id: NodeId
  readonly gatewayUrl: string
  readonly gatewaySecret: string
  /** Digest → size. */
  readonly files: ReadonlyMap<string, number>
}

export interface FilesForDeps {
  /** The node that is to have them. */
  readonly nodeId: NodeId
  /** Reachable nodes and what they keep. */
  readonly holders: readonly FileHolder[]
  /** Which controller vouches for it. */
  readonly controller: string
}

/** As many as a worker tries before it goes to the source. */
const maxPeers = 4
const uploadScheme = 'upload:sha256:'

export function filesFor({ files }: Pick<ModelConfig, 'files'>, { nodeId, holders, controller }: FilesForDeps): ModelFile[] {
  return files.map((file) => {
    const sha256 = file.uri.startsWith(uploadScheme) ? file.uri.slice(uploadScheme.length) : file.sha256
    // Without a digest nobody can say that two files are the same.
    if (sha256 === undefined) return file
    const digest = Digest.parse(`sha256:${sha256}`)
    const having = holders.filter((holder) => holder.files.has(digest))
    const size = having[0]?.files.get(digest)
    const peers = having
      .filter(({ id, gatewayUrl }) => id !== nodeId && gatewayUrl !== '')
      .slice(0, maxPeers)
      .map(({ id, gatewayUrl, gatewaySecret: secret }) => ({
        url: `${gatewayUrl.replace(/\/+$/, '')}${gatewayPaths.file(digest)}`,
        authorization: `Bearer ${mintGatewayToken({ secret, nodeId: id, scope: gatewayScope.file(digest), controller })}`,
      }))
    return { ...file, sha256, ...(size === undefined ? {} : { size }), ...(peers.length === 0 ? {} : { peers }) }
  })
}
