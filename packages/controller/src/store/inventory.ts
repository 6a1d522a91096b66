// Every query about what nodes have installed, as they say it: by events that carry a number, and by answers that carry
// none. An older word never replaces a newer one.
import type { InstalledBackend, NodeId } from '@muster/protocol'
import { sql, type Kysely } from 'kysely'
import type { Database } from './tables.ts'

/** A node that is asked, the process that spoke for it then, and when that was. */
export interface AskedForInventory {
  readonly id: NodeId
  readonly incarnation: string | null
  readonly askedAt: string
}

export class InventoryStore {
  readonly #db: Kysely<Database>

  constructor(db: Kysely<Database>) {
    this.#db = db
  }

  /** False when it is not news: from a process that no longer speaks for the node, or older than what is known. */
  async record(id: NodeId, said: { incarnation: string; seq: number; backends: readonly InstalledBackend[] }): Promise<boolean> {
    const { incarnation, seq } = said
    const result = await sql`
      update nodes set inventory = ${JSON.stringify(said.backends)}::jsonb, inventory_incarnation = ${incarnation}, inventory_seq = ${seq},
        inventory_at = now()
      where id = ${id} and incarnation = ${incarnation} and node_type <> 'agent'
        and (inventory_incarnation is distinct from ${incarnation} or inventory_seq is null or inventory_seq < ${seq})`.execute(this.#db)
    return (result.numAffectedRows ?? 0n) > 0n
  }

  /** The database's time, before anybody is asked. */
  async now(): Promise<string> {
    const { rows } = await sql<{ now: string }>`select clock_timestamp() as now`.execute(this.#db)
    return rows[0]?.now ?? ''
  }

  /**
   * An answer is as of when it was asked for, or later: it counts unless something was heard since. The number of the last
   * event stays, so that the next one is told from an older one.
   */
  async recordAnswer({ id, incarnation, askedAt }: AskedForInventory, backends: readonly InstalledBackend[]): Promise<boolean> {
    const result = await sql`
      update nodes set inventory = ${JSON.stringify(backends)}::jsonb, inventory_incarnation = ${incarnation}, inventory_at = now(),
        inventory_seq = case when inventory_incarnation = ${incarnation} then inventory_seq end
      where id = ${id} and incarnation = ${incarnation} and node_type <> 'agent'
        and (inventory_at is null or inventory_incarnation is distinct from ${incarnation} or inventory_at <= ${askedAt}::timestamptz)`.execute(
      this.#db,
    )
    return (result.numAffectedRows ?? 0n) > 0n
  }
}
