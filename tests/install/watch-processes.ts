// Looks at every backend process of a fleet all the time: whose it is, and that no two share a slot (I11).
import { readFile, readlink } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import type { Fleet } from '../fleet/fleet-world.ts'

export interface SeenProcess {
  readonly pid: number
  readonly replicaId: string
  /** Its worker's directory. */
  readonly worker: string
}
export interface ProcessWatch {
  /** Places that had two processes at one time, in words. */
  doubles(): readonly string[]
  stop(): Promise<void>
}

export async function processesOf(fleet: Fleet): Promise<SeenProcess[]> {
  const found = await Promise.all(
    (await fleet.backendProcesses()).map(async (pid): Promise<SeenProcess[]> => {
      const [env, cwd] = await Promise.all([
        readFile(`/proc/${pid}/environ`, 'utf8').catch(() => ''),
        readlink(`/proc/${pid}/cwd`).catch(() => ''),
      ])
      const replicaId = /(?:^|\0)MUSTER_REPLICA_ID=([^\0]+)/.exec(env)?.[1]
      const worker = /\/(worker-[^/]+)\//.exec(cwd)?.[1]
      return replicaId === undefined || worker === undefined ? [] : [{ pid, replicaId, worker }]
    }),
  )
  return found.flat()
}

export async function watchProcesses(fleet: Fleet): Promise<ProcessWatch> {
  const db = new Client({ connectionString: fleet.databaseUrl })
  await db.connect()
  const doubles = new Set<string>()
  const slots = new Map<string, string>()
  let isStopped = false
  const look = async (): Promise<void> => {
    const seen = await processesOf(fleet)
    const unknown = seen.map(({ replicaId }) => replicaId).filter((id) => !slots.has(id))
    if (unknown.length > 0) {
      const { rows } = await db.query('select id, node_id, model, slot from replicas where id = any($1)', [unknown])
      for (const { id, node_id, model, slot } of rows) slots.set(id, `${node_id} ${model} ${slot}`)
    }
    const bySlot = Map.groupBy(seen, ({ replicaId }) => slots.get(replicaId) ?? replicaId)
    for (const [slot, processes] of bySlot) if (processes.length > 1) doubles.add(`${slot}: ${JSON.stringify(processes)}`)
  }
  const looking = (async () => {
    while (!isStopped) {
      await look()
      await pause(50)
    }
  })()
  return {
    doubles: () => [...doubles],
    async stop() {
      isStopped = true
      await looking
      await db.end()
    },
  }
}
