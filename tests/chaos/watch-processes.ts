// Looks into /proc, again and again, for the engines of every worker: processes that carry its marker.
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import type { Life } from './observation.ts'
import type { Worker } from './world.ts'

export type MarkedProcess = Readonly<{ pid: number; mark: string; replica: string }>

/** A process that has ended and was not reaped has no environment any more. */
export function scanProcesses(): MarkedProcess[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    const environment = readEnvironment(name)
    const mark = /(?:^|\0)MUSTER_WORKER_ID=([0-9a-f]+)\0/.exec(environment)?.[1]
    const replica = /(?:^|\0)MUSTER_REPLICA_ID=([^\0]+)\0/.exec(environment)?.[1]
    return mark === undefined || replica === undefined ? [] : [{ pid: Number(name), mark, replica }]
  })
}

function readEnvironment(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch {
    return ''
  }
}

export interface ProcessWatch {
  lives(): Life[]
  /** The replicas whose processes ran on this node at the last look. */
  running(node: string): string[]
  /** A look that begins now has ended. */
  lookOnce(): void
}

const lookMs = 200

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export function watchProcesses({ workers, now }: { workers: readonly Worker[]; now: () => number }, signal: AbortSignal): ProcessWatch {
  const nodes = new Map(workers.map(({ mark, name }) => [mark, name]))
  const lives = new Map<string, Mutable<Life>>()
  let last = 0
  const look = (): void => {
    const began = now()
    const found = scanProcesses().flatMap(({ mark, replica }) => {
      const node = nodes.get(mark)
      return node === undefined ? [] : [{ node, replica }]
    })
    const ended = now()
    const keys = new Set(found.map(({ node, replica }) => `${node} ${replica}`))
    for (const { node, replica } of found) {
      const key = `${node} ${replica}`
      const life = lives.get(key) ?? { node, replica, after: last, from: ended, to: began, before: Infinity }
      lives.set(key, Object.assign(life, { to: began, before: Infinity }))
    }
    for (const [key, life] of lives) if (!keys.has(key) && life.before === Infinity) life.before = ended
    last = began
  }
  const keepLooking = async (): Promise<void> => {
    while (!signal.aborted) {
      look()
      await delay(lookMs)
    }
  }
  void keepLooking()
  return {
    lives: () => [...lives.values()],
    running: (node) => [...lives.values()].filter((life) => life.node === node && life.before === Infinity).map(({ replica }) => replica),
    lookOnce: look,
  }
}
