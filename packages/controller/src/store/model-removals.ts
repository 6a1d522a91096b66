// Every query about files of deleted models that nodes still have, or may have.
import { NodeId, OperationId } from '@muster/protocol'
import { sql, type Transaction } from 'kysely'
import { ModelOperationStore } from './model-operations.ts'
import type { Database } from './tables.ts'

/** What is left to be deleted of it is left where it is, and the operations that wait for it are told why. */
export async function cancelRemovals(tx: Transaction<Database>, model: string, message: string): Promise<void> {
  const { rows } = await sql<{ node_id: string; operation_id: string }>`
    delete from model_removals where model = ${model} returning node_id, operation_id`.execute(tx)
  const operations = new ModelOperationStore(tx)
  for (const row of rows)
    await operations.settleNode(OperationId.parse(row.operation_id), NodeId.parse(row.node_id), { status: 'cancelled', message })
}
