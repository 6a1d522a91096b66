// A model of what a power cut leaves of files, by the recorded calls of a process (record-files.ts). Pure.
//
// Bytes are on the disk once their file was synced, and a name once its directory was synced; a sync counts for what was
// written before it began, and only when it has ended. The laws:
//   1. a file or directory gets its final name by a rename only when everything in it is on the disk
//   2. at a promise, the promised files, their names and the names of their directories are on the disk

/** In the order in which they were made. `path` is absolute. */
export type FileCall =
  | Readonly<{ do: 'write' | 'create' | 'remove'; path: string }>
  | Readonly<{ do: 'rename' | 'link'; path: string; to: string }>
  | Readonly<{ do: 'sync' | 'synced'; path: string; id: string }>
  /** `holds`: the promised content is there; false is a violation whatever is on the disk. */
  | Readonly<{ do: 'promise'; name: string; paths: readonly string[]; holds: boolean }>

export interface DiskReport {
  /** Breaches of the first law. */
  readonly renames: readonly string[]
  /** Breaches of the second law by promise; a kept promise has none. */
  readonly promises: ReadonlyMap<string, readonly string[]>
}

export interface DiskRules {
  /** Nothing outside of it is judged. */
  readonly root: string
  /** The name may be lost: temporary names, and content that can be fetched again. */
  readonly mayBeLost: (path: string) => boolean
}

/** The number of the call that made it dirty, by path. */
type Dirt = Map<string, number>

export function checkDisk(calls: readonly FileCall[], { root, mayBeLost }: DiskRules): DiskReport {
  const [data, names]: [Dirt, Dirt] = [new Map(), new Map()]
  const begun = new Map<string, number>()
  const renames: string[] = []
  const promises = new Map<string, string[]>()
  const isJudged = (path: string): boolean => isWithin(path, root)

  const clean = (path: string, before: number): void => {
    if ((data.get(path) ?? Infinity) < before) data.delete(path)
    for (const [name, at] of names) if (parentOf(name) === path && at < before) names.delete(name)
  }
  const unsynced = (path: string): string[] => [
    ...[...data.keys()].filter((each) => isWithin(each, path)).map((each) => `the content of ${each}`),
    ...[...names.keys()].filter((each) => each !== path && isWithin(each, path)).map((each) => `the name ${each}`),
  ]
  const take = (call: FileCall, at: number): void => {
    switch (call.do) {
      case 'write':
        return void data.set(call.path, at)
      case 'create':
        return void names.set(call.path, at)
      case 'remove':
        forget(data, call.path)
        forget(names, call.path)
        return void names.set(call.path, at)
      case 'link':
        if (data.has(call.path)) data.set(call.to, at)
        return void names.set(call.to, at)
      case 'rename':
        if (isJudged(call.to) && !mayBeLost(call.to))
          for (const what of unsynced(call.path)) renames.push(`${what} is not synced when ${call.to} appears`)
        for (const dirt of [data, names]) move(dirt, call)
        return void names.set(call.to, at)
      case 'sync':
        return void begun.set(call.id, at)
      case 'synced':
        return clean(call.path, begun.get(call.id) ?? -1)
      case 'promise': {
        const missing = call.paths.flatMap((path) => [
          ...unsynced(path),
          ...pathAndParents(path, root)
            .filter((each) => names.has(each))
            .map((each) => `the name ${each}`),
        ])
        promises.set(call.name, [...(promises.get(call.name) ?? []), ...(call.holds ? [] : ['it is not there']), ...missing])
      }
    }
  }
  for (const [at, call] of calls.entries()) take(call, at)
  return { renames, promises }
}

const parentOf = (path: string): string => path.slice(0, path.lastIndexOf('/'))
const isWithin = (path: string, directory: string): boolean => path === directory || path.startsWith(`${directory}/`)

/** The root itself included. */
function pathAndParents(path: string, root: string): string[] {
  return isWithin(path, root) ? [path, ...(path === root ? [] : pathAndParents(parentOf(path), root))] : []
}

function forget(dirt: Dirt, path: string): void {
  for (const each of dirt.keys()) if (isWithin(each, path)) dirt.delete(each)
}

function move(dirt: Dirt, { path, to }: Readonly<{ path: string; to: string }>): void {
  const moved = [...dirt].filter(([each]) => isWithin(each, path))
  for (const at of [path, to]) forget(dirt, at)
  for (const [each, at] of moved) dirt.set(to + each.slice(path.length), at)
}
