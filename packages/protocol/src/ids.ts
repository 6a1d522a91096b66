// Names that travel between processes. Each is validated where it enters and branded, so that no unvalidated text can become part
// of a subject, a path or a query. Invalid names are refused, not sanitized (sanitizing makes two names one).
import { z } from 'zod'

/** Foreign text without the characters that PostgreSQL cannot store: one text must not fail a statement about many rows. */
export const storableText = (max: number) =>
  z
    .string()
    .max(max)
    .overwrite((text) => text.replaceAll('\0', '\uFFFD').toWellFormed())

/** Text from other machines and people: no control characters, no lone surrogates (PostgreSQL stores neither). */
export const plainText = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[^\p{C}\p{Zl}\p{Zp}]*$/u, 'text has no control characters')

export const NodeId = z
  .string()
  .regex(/^[a-z0-9-]{1,63}$/, 'a node id is 1–63 characters of a–z, 0–9 and -')
  .brand('NodeId')
export type NodeId = z.infer<typeof NodeId>

/** A label for people: not unique, not verified, never part of a subject or a path. */
export const NodeName = z
  .string()
  .min(1)
  .max(255)
  .regex(/^[^\p{C}\p{Zl}\p{Zp}]+$/u, 'a node name is 1–255 printable characters')
  .brand('NodeName')
export type NodeName = z.infer<typeof NodeName>

export const BackendName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$/, 'a backend name is 1–128 characters of A–Z, a–z, 0–9 and . _ + -')
  .brand('BackendName')
export type BackendName = z.infer<typeof BackendName>

/** Letters and digits of any script, in one form only (NFC). No name leads out of a folder; subjects and headers have none. */
export const ModelName = z
  .string()
  .regex(
    /^(?!.*(?:\.\.|\/\/))[\p{L}\p{Nd}][\p{L}\p{M}\p{Nd}._:@/+-]{0,199}$/u,
    'a model name is 1–200 letters, digits and . _ : @ / + -, without .. and //, and begins with a letter or digit',
  )
  .refine((name) => name.normalize('NFC') === name, 'a model name is in Unicode normal form NFC; write it with composed characters')
  .brand('ModelName')
export type ModelName = z.infer<typeof ModelName>

const token = /^[A-Za-z0-9_-]{1,64}$/
export const OperationId = z.string().regex(token, 'an operation id is 1–64 characters of A–Z, a–z, 0–9, _ and -').brand('OperationId')
export type OperationId = z.infer<typeof OperationId>

export const ReplicaId = z.string().regex(token, 'a replica id is 1–64 characters of A–Z, a–z, 0–9, _ and -').brand('ReplicaId')
export type ReplicaId = z.infer<typeof ReplicaId>

/** New for each start of a worker process; distinguishes a restarted worker from a second copy. */
export const Incarnation = z.string().regex(token, 'an incarnation is 1–64 characters of A–Z, a–z, 0–9, _ and -').brand('Incarnation')
export type Incarnation = z.infer<typeof Incarnation>

/** An nkey *user* public key, the identity of a node. Its checksum is verified where the key is used. */
export const PublicKey = z
  .string()
  .regex(/^U[A-Z2-7]{55}$/, 'a public key is an nkey user key: U and 55 base32 characters')
  .brand('PublicKey')
export type PublicKey = z.infer<typeof PublicKey>

export const Digest = z
  .string()
  .regex(/^sha256:[0-9a-f]{64}$/, 'a digest is sha256: and 64 lower-case hex digits')
  .brand('Digest')
export type Digest = z.infer<typeof Digest>

/** An agent runs no backends. */
export const NodeType = z.enum(['backend', 'agent'])
export type NodeType = z.infer<typeof NodeType>

/** Derived by states/node.ts. */
export const NodeStatus = z.enum(['pending', 'offline', 'unhealthy', 'draining', 'healthy'])
export type NodeStatus = z.infer<typeof NodeStatus>
