// One backend as a gallery offers it: LocalAI's index format, bounded. Unknown fields are dropped.
import { BackendName } from '@muster/protocol'
import { z } from 'zod'

const text = (max: number) =>
  z
    .string()
    .max(max)
    .nullish()
    .transform((value) => value ?? '')
const texts = (max: number) =>
  z
    .array(z.string().max(4096))
    .max(max)
    .nullish()
    .transform((value) => value ?? [])

export const Capability = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'a capability is 1–64 characters of a–z, 0–9 and . _ -')

export const GalleryEntry = z.object({
  name: BackendName,
  /** The name that the variants of one backend share. */
  alias: z
    .union([z.literal('').transform(() => null), BackendName])
    .nullish()
    .transform((value) => value ?? null),
  /** The source; empty for a meta backend. */
  uri: text(2048),
  /** Tried in this order when `uri` does not answer. */
  mirrors: texts(64),
  version: text(256),
  /** The digest of the archive, for `https:` sources. */
  sha256: z
    .union([z.literal(''), z.string().regex(/^[0-9a-f]{64}$/, 'a sha256 is 64 lower-case hex digits')])
    .nullish()
    .transform((value) => value ?? ''),
  /** Capability of a node → the entry that suits it. */
  capabilities: z
    .record(Capability, BackendName)
    .refine((map) => Object.keys(map).length <= 256, 'an entry has at most 256 capabilities')
    .nullish()
    .transform((value) => value ?? {}),
  license: text(256),
  icon: text(8192),
  description: text(65_536),
  urls: texts(256),
  tags: texts(256),
})
export type GalleryEntry = z.infer<typeof GalleryEntry>

/** A name that stands for one of several entries, depending on the node. */
export const isMeta = (entry: Pick<GalleryEntry, 'uri' | 'capabilities'>): boolean =>
  entry.uri === '' && Object.keys(entry.capabilities).length > 0
