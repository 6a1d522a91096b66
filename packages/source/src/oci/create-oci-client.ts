// Images from registries.
import type { Digest } from '@muster/protocol'
import type { OpenedStream } from '../outbound/open-at-offset.ts'
import type { Platform } from './manifest.ts'
import type { OciReference } from './reference.ts'
import type { RegistryOptions } from './registry-api.ts'
import { createRegistryCall, openBlob, type RegistryCall } from './registry-call.ts'
import { type ArtifactFile, resolveArtifact, type ArtifactQuery } from './resolve-artifact.ts'
import { type ResolvedImage, resolveImage } from './resolve-image.ts'

export interface OciClient {
  /** Tag → digest once; index → the manifest of this platform. Every document is checked against its digest. */
  resolve(reference: OciReference, platform: Platform, signal: AbortSignal): Promise<ResolvedImage>
  /** The layer of an artifact that is this file. */
  resolveFile(wanted: ArtifactQuery): Promise<ArtifactFile>
  /** From `offset` on if the registry supports it; otherwise from the beginning, as its answer states. */
  openBlob(reference: OciReference, digest: Digest, at: { offset: number; signal: AbortSignal }): Promise<OpenedStream>
}

/** Mirrors are separate references that the caller tries in order. */
export function createOciClient(options: RegistryOptions & { readonly random?: () => number }): OciClient {
  return ociClientOver(createRegistryCall(options))
}

/** The same client over any registry API. */
export function ociClientOver(call: RegistryCall): OciClient {
  return {
    resolve: (reference, platform, signal) => resolveImage(call, { reference, platform, signal }),
    resolveFile: (wanted) => resolveArtifact(call, wanted),
    openBlob: (reference, digest, { offset, signal }) => openBlob(call, { reference, digest, offset, signal }),
  }
}
