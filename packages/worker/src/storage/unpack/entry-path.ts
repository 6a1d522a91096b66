// Validates names and link targets of entries. Nothing is normalized: an invalid name is refused.
import type { UnpackLimits } from '@muster/protocol'
import { quote, refusal } from './refusal.ts'

const largestTargetBytes = 4095

export interface EntryPath {
  /** Empty for the root itself. */
  readonly parts: readonly string[]
  readonly hasTrailingSlash: boolean
}

export function parseEntryPath(path: string, limits: Pick<UnpackLimits, 'pathBytes' | 'nameBytes' | 'depth'>): EntryPath {
  if (path.startsWith('/')) throw refusal('path_absolute', `${quote(path)} is an absolute path`)
  if (path === '') throw refusal('path_form', 'an entry has no name')
  if (path.includes('\0')) throw refusal('path_encoding', `${quote(path)} contains a NUL`)
  if (Buffer.byteLength(path) > limits.pathBytes) throw refusal('path_length', `${quote(path)} is longer than ${limits.pathBytes} bytes`)
  const hasTrailingSlash = path.endsWith('/')
  const all = (hasTrailingSlash ? path.slice(0, -1) : path).split('/')
  const parts = all[0] === '.' ? all.slice(1) : all
  for (const part of parts) {
    if (part === '..') throw refusal('path_parent', `${quote(path)} leads out of its directory`)
    if (part === '' || part === '.') throw refusal('path_form', `${quote(path)} is not a plain path`)
    if (Buffer.byteLength(part) > limits.nameBytes) throw refusal('path_length', `${quote(part)} is longer than ${limits.nameBytes} bytes`)
  }
  if (parts.length > limits.depth) throw refusal('path_depth', `${quote(path)} is deeper than ${limits.depth} directories`)
  return { parts, hasTrailingSlash }
}

/** Checks the text alone; `checkLinks` follows links through other links once all layers are applied. */
export function checkLinkTarget(parts: readonly string[], target: string): void {
  const what = `the symbolic link ${quote(parts.join('/'))} to ${quote(target)}`
  if (target === '' || target.includes('\0') || Buffer.byteLength(target) > largestTargetBytes)
    throw refusal('symlink_escape', `${what} has no usable target`)
  if (target.startsWith('/')) throw refusal('symlink_escape', `${what} is absolute`)
  let depth = parts.length - 1
  for (const part of target.split('/')) {
    if (part === '..') depth--
    else if (part !== '' && part !== '.') depth++
    if (depth < 0) throw refusal('symlink_escape', `${what} leads out of the tree`)
  }
}

export type Whiteout = { readonly hides: 'one'; readonly name: string } | { readonly hides: 'all' }

/** Null for an ordinary name. */
export function parseWhiteout(name: string): Whiteout | null {
  if (!name.startsWith('.wh.')) return null
  if (name === '.wh..wh..opq') return { hides: 'all' }
  const hidden = name.slice('.wh.'.length)
  if (hidden === '' || hidden === '.' || hidden === '..' || hidden.startsWith('.wh.'))
    throw refusal('whiteout', `${quote(name)} is not a valid whiteout`)
  return { hides: 'one', name: hidden }
}
