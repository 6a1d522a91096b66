// Paths of the files of models. Names of models, revisions and sources are hashed before they become part of a path, so
// that no path can leave the root.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Digest, ModelName } from '@muster/protocol'
import { digestHex } from '../storage/records.ts'

export type ModelLayout = ReturnType<typeof modelLayoutOf>

export function modelLayoutOf(root: string) {
  const incoming = join(root, 'incoming')
  const blobs = join(root, 'blobs', 'sha256')
  const byModel = join(root, 'by-model')
  const uploads = join(root, 'uploads')
  const verifiedFiles = join(root, 'verified')
  const knownSources = join(root, 'known')
  const facts = join(root, 'facts')
  const modelFolder = (model: ModelName): string => join(byModel, hashOf(model))
  return {
    root,
    incoming,
    blobs,
    byModel,
    /** Marks of uploaded content, which is kept even while no model names it. */
    uploads,
    verifiedFiles,
    knownSources,
    facts,
    /** Unfinished work; emptied at every start. */
    staging: join(root, 'staging'),
    incomingFile: (digest: Digest) => join(incoming, digestHex(digest)),
    /** A download whose digest is not known yet, by its source. */
    incomingOf: (source: string) => join(incoming, `from-${hashOf(source)}`),
    blob: (digest: Digest) => join(blobs, digestHex(digest)),
    upload: (digest: Digest) => join(uploads, digestHex(digest)),
    /** Marks of content uploaded for a model; removed with the model. */
    uploadsFor: (model: ModelName) => join(uploads, `${modelUploadsPrefix}${hashOf(model)}`),
    /** The recorded hash of a file on a shared volume. */
    verifiedFile: (path: string) => join(verifiedFiles, hashOf(path)),
    /** The recorded content of a source. */
    knownSource: (source: string) => join(knownSources, hashOf(source)),
    /** The recorded header of content. */
    factsOf: (digest: Digest) => join(facts, digestHex(digest)),
    model: modelFolder,
    folder: (model: ModelName, revision: string) => join(modelFolder(model), hashOf(revision)),
  }
}

/** The prefix of directories in `uploads`. */
export const modelUploadsPrefix = 'of-'

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')
