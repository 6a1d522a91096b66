// Which version of each backend is the one in use. Activating replaces one file by rename: whoever looks, and whoever
// starts after a crash, finds the old version or the new one.
import { open, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, isTemporary, makeDirectory, temporaryName, type Log } from '@muster/host'
import { BackendName } from '@muster/protocol'
import { Activation, type InstalledRecord } from './installed-record.ts'
import type { Layout } from './layout.ts'
import { syncPath } from './unpack/sync-tree.ts'

export interface Activations {
  activate(record: InstalledRecord): Promise<void>
  deactivate(name: BackendName): Promise<boolean>
  /** False when there was none. */
  forgetPrevious(name: BackendName): Promise<boolean>
  get(name: BackendName): Promise<Activation | null>
  /** `isComplete` is false when a file could not be read: then nobody knows what it holds on to. */
  all(): Promise<{ readonly found: readonly Activation[]; readonly isComplete: boolean }>
  removeLeftovers(): Promise<void>
}

export interface ActivationsDeps {
  readonly layout: Layout
  readonly log: Log
  readonly step: (name: string) => Promise<void> | void
}

export function createActivations({ layout, log, step }: ActivationsDeps): Activations {
  const names = async (): Promise<BackendName[]> =>
    (await readdir(layout.backends)).flatMap((name) => BackendName.safeParse(name).data ?? [])
  const get = async (name: BackendName): Promise<Activation | null> => {
    const text = await readFile(recordPath(layout, name), 'utf8').catch(nullIfMissing)
    return text === null ? null : Activation.parse(JSON.parse(text))
  }
  const write = async (activation: Activation): Promise<void> => {
    const { name } = activation.current
    await replaceFile(recordPath(layout, name), activation, () => step('W.swap.between'))
    await syncPath(layout.backend(name))
  }
  return {
    get,
    activate: async (record) => {
      await step('W.swap.before')
      const before = await get(record.name).catch(() => null)
      const previous = before === null || before.current.digest === record.digest ? (before?.previous ?? null) : before.current
      await makeDirectory(layout.backend(record.name), { mode: 0o700 })
      await write({ format: 1, current: record, previous })
      await step('W.swap.after')
    },
    forgetPrevious: async (name) => {
      const found = await get(name).catch(() => null)
      if (found === null || found.previous === null) return false
      await write({ ...found, previous: null })
      return true
    },
    deactivate: (name) => deactivate(name, { layout, step }),
    all: async () => {
      const found: Activation[] = []
      let isComplete = true
      for (const name of await names()) {
        try {
          const activation = await get(name)
          if (activation !== null) found.push(activation)
        } catch (error) {
          isComplete = false
          log.error("the record of an installed backend can't be read; it is kept, and nothing is cleaned up", { backend: name, error })
        }
      }
      return { found, isComplete }
    },
    removeLeftovers: async () => {
      for (const name of await names()) {
        const directory = layout.backend(name)
        for (const file of (await readdir(directory)).filter(isTemporary)) await rm(join(directory, file), { force: true })
        await rmdir(directory).catch(() => {})
      }
    },
  }
}

const recordPath = (layout: Layout, name: BackendName): string => join(layout.backend(name), 'current')

async function deactivate(name: BackendName, { layout, step }: Pick<ActivationsDeps, 'layout' | 'step'>): Promise<boolean> {
  await step('W.swap.before')
  const isRemoved = await rm(recordPath(layout, name)).then(() => true, nullIfMissing)
  if (isRemoved === null) return false
  await syncPath(layout.backend(name))
  await step('W.swap.between')
  // Only if it is empty; an empty one that stays means nothing.
  await rmdir(layout.backend(name)).catch(() => {})
  await syncPath(layout.backends)
  await step('W.swap.after')
  return true
}

async function replaceFile(path: string, activation: Activation, between: () => Promise<void> | void): Promise<void> {
  const temporary = temporaryName(path)
  try {
    await using file = await open(temporary, 'wx', 0o600)
    await file.writeFile(JSON.stringify(activation))
    await file.sync()
    await between()
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

function nullIfMissing(error: unknown): null {
  if (errorCode(error) === 'ENOENT') return null
  throw error
}
