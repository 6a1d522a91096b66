// Preloaded into a process (node --import), and by that into its threads: records the calls that change or sync files, in the
// order in which they are made, as lines of the file that MUSTER_FILE_TRACE names. The sources know nothing of it.
import fs, { type PathLike } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { resolve } from 'node:path'
import { threadId } from 'node:worker_threads'
import type { FileCall } from './disk-model.ts'

const trace = process.env['MUSTER_FILE_TRACE']
const { writeSync, existsSync } = fs
const out = trace === undefined ? null : fs.openSync(trace, 'a')
const record = (call: FileCall): void => void (out !== null && writeSync(out, `${JSON.stringify(call)}\n`))

/** Called where a result is reported: from here on a power cut must not lose these paths. */
export function recordPromise(name: string, paths: readonly string[], holds = true): void {
  record({ do: 'promise', name, paths, holds })
}

const text = (path: unknown): string => resolve(String(path))
type AnyFunction = (...args: never[]) => unknown
type Wrapper = (original: AnyFunction) => (this: unknown, ...args: unknown[]) => unknown

function replace(target: object, names: readonly string[], wrap: Wrapper): void {
  for (const name of names) {
    const original = Reflect.get(target, name) as AnyFunction
    Reflect.set(target, name, wrap(original))
  }
}

const call = (original: AnyFunction, self: unknown, args: readonly unknown[]): unknown => Reflect.apply(original, self, args)

/** Records once before, and again when a promise settles: a write is dirty until its end. */
const around =
  (calls: (args: readonly unknown[], self: unknown) => readonly FileCall[]): Wrapper =>
  (original) =>
    function (this: unknown, ...args) {
      const made = calls(args, this)
      made.forEach(record)
      const result = call(original, this, args)
      if (!(result instanceof Promise) || made.every((each) => each.do !== 'write')) return result
      return result.finally(() => made.forEach(record))
    }

const paths = new Map<number, string>()
const pathOf = (of: unknown): string =>
  typeof of === 'number'
    ? (paths.get(of) ?? '')
    : typeof of === 'object' && of !== null && 'fd' in of
      ? (paths.get(Number(of.fd)) ?? '')
      : text(of)
const isWriting = (flags: unknown): boolean =>
  typeof flags === 'number' ? (flags & 3) !== 0 : typeof flags === 'string' && /^[wa]|\+/.test(flags)

let syncs = 0
const syncing: Wrapper = (original) =>
  function (this: unknown, ...args) {
    const path = pathOf(args.length > 0 ? args[0] : this)
    const id = `${process.pid}.${threadId}.${(syncs += 1)}`
    record({ do: 'sync', path, id })
    const result = call(original, this, args)
    const end = (): void => record({ do: 'synced', path, id })
    if (result instanceof Promise) return result.then(end)
    end()
    return undefined
  }
const opening: Wrapper = (original) =>
  function (this: unknown, ...args) {
    const path = text(args[0])
    if (isWriting(args[1]) && !existsSync(path)) record({ do: 'create', path })
    const result = call(original, this, args)
    if (typeof result === 'number') paths.set(result, path)
    if (!(result instanceof Promise)) return result
    return result.then((handle: { fd: number }) => {
      paths.set(handle.fd, path)
      return handle
    })
  }
const writing = around(([to], self) => {
  const path = pathOf(self instanceof Object && 'fd' in self ? self : to)
  const isNew = typeof to === 'string' && !(self instanceof Object && 'fd' in self) && !existsSync(path)
  return [...(isNew ? [{ do: 'create', path } as const] : []), { do: 'write', path }]
})
const creating = around(([path, options]) => missingOf(text(path), options).map((each) => ({ do: 'create', path: each })))
const removing = around(([path]) => (existsSync(path as PathLike) ? [{ do: 'remove', path: text(path) }] : []))

/** A recursive mkdir creates parents too. */
function missingOf(path: string, options: unknown): string[] {
  if (existsSync(path)) return []
  const isRecursive = options instanceof Object && 'recursive' in options && options.recursive === true
  return [...(isRecursive ? missingOf(resolve(path, '..'), options) : []), path]
}

if (out !== null) {
  const handle = await fs.promises.open(import.meta.filename, 'r')
  const FileHandle = Object.getPrototypeOf(handle) as object
  await handle.close()
  replace(FileHandle, ['write', 'writev', 'writeFile', 'appendFile', 'truncate'], writing)
  replace(FileHandle, ['sync', 'datasync'], syncing)
  for (const [target, suffix] of [
    [fs.promises, ''],
    [fs, 'Sync'],
  ] as const) {
    const named = (...names: string[]): string[] => names.map((name) => name + suffix)
    replace(target, named('open'), opening)
    replace(target, named('writeFile', 'appendFile', 'truncate'), writing)
    replace(target, named('mkdir'), creating)
    replace(target, named('rm', 'unlink', 'rmdir'), removing)
    replace(target, named('rename', 'link'), (original) =>
      around(([path, to]) => [{ do: original.name.startsWith('rename') ? 'rename' : 'link', path: text(path), to: text(to) }])(original),
    )
    replace(
      target,
      named('symlink'),
      around(([, path]) => [{ do: 'create', path: text(path) }]),
    )
    replace(
      target,
      named('copyFile'),
      around(([, path]) => [
        { do: 'create', path: text(path) },
        { do: 'write', path: text(path) },
      ]),
    )
  }
  replace(fs, ['writeSync', 'ftruncateSync'], writing)
  replace(fs, ['fsyncSync', 'fdatasyncSync'], syncing)
  syncBuiltinESMExports()
}
