// Writes tar (POSIX.1-2001) so that the same entries always give the same bytes: no owner, no time, two modes.
// Only what an image layer needs: files, directories, symbolic links.

const block = 512
const end = Buffer.alloc(2 * block)

export interface TarEntry {
  readonly path: string
  readonly kind: 'file' | 'directory' | 'link'
  readonly isExecutable: boolean
  /** Only for files. */
  readonly sizeBytes: number
  /** Only for links. */
  readonly target: string
}

const typeFlags = { file: '0', directory: '5', link: '2' } as const

export interface TarSource {
  readonly entry: TarEntry
  /** Exactly `sizeBytes` bytes. */
  open(): AsyncIterable<Uint8Array>
}

export async function* writeTar(sources: Iterable<TarSource>): AsyncGenerator<Uint8Array> {
  for (const { entry, open } of sources) {
    yield header(entry)
    if (entry.kind !== 'file') continue
    yield* open()
    yield padding(entry.sizeBytes)
  }
  yield end
}

function header(entry: TarEntry): Uint8Array {
  const path = entry.kind === 'directory' ? `${entry.path}/` : entry.path
  const records = [
    ...(fits(path) ? [] : [record('path', path)]),
    ...(fits(entry.target) ? [] : [record('linkpath', entry.target)]),
    ...(entry.sizeBytes < 8 ** 11 ? [] : [record('size', String(entry.sizeBytes))]),
  ]
  const plain = { path, target: entry.target, mode: entry.isExecutable || entry.kind === 'directory' ? 0o755 : 0o644 }
  const own = rawHeader({ ...plain, type: typeFlags[entry.kind], sizeBytes: entry.sizeBytes })
  if (records.length === 0) return own
  const body = Buffer.concat(records)
  const extended = rawHeader({ path: 'pax', target: '', mode: 0o644, type: 'x', sizeBytes: body.length })
  return Buffer.concat([extended, body, padding(body.length), own])
}

/** True when a name fits into the plain header; others get a record of their own. */
const fits = (name: string): boolean => name.length <= 100 && /^[\x20-\x7e]*$/.test(name)

/** `length key=value\n`, where length counts itself. */
function record(key: string, value: string): Buffer {
  const rest = Buffer.from(` ${key}=${value}\n`)
  let length = rest.length + 1
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length
  return Buffer.concat([Buffer.from(String(length)), rest])
}

interface RawHeader {
  readonly path: string
  readonly target: string
  readonly mode: number
  readonly type: string
  readonly sizeBytes: number
}

function rawHeader({ path, target, mode, type, sizeBytes }: RawHeader): Buffer {
  const bytes = Buffer.alloc(block)
  const octal = (value: number, at: number, length: number): void =>
    void bytes.write(value.toString(8).padStart(length - 1, '0'), at, 'ascii')
  // A name that also has a record is only for very old tools.
  bytes.write(ascii(path), 0, 100, 'ascii')
  octal(mode, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(sizeBytes < 8 ** 11 ? sizeBytes : 0, 124, 12)
  octal(0, 136, 12)
  bytes.write('        ', 148, 'ascii')
  bytes.write(type, 156, 'ascii')
  bytes.write(ascii(target), 157, 100, 'ascii')
  bytes.write('ustar\u000000', 257, 'ascii')
  const sum = bytes.reduce((total, byte) => total + byte, 0)
  bytes.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'ascii')
  return bytes
}

const ascii = (name: string): string => name.replace(/[^\x20-\x7e]/gu, '_').slice(0, 100)

const padding = (sizeBytes: number): Buffer => Buffer.alloc((block - (sizeBytes % block)) % block)
