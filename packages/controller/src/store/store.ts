// All queries of a controller, by the table they own.
import type { Kysely } from 'kysely'
import { createAccessStore } from './access.ts'
import { createChangeStore } from './changes.ts'
import { createControllerStore } from './controllers.ts'
import { createNodeStore } from './nodes.ts'
import { createPulseStore } from './pulses.ts'
import type { Database } from './tables.ts'

export type Store = ReturnType<typeof createStore>

export function createStore(db: Kysely<Database>) {
  return {
    access: createAccessStore(db),
    changes: createChangeStore(db),
    controllers: createControllerStore(db),
    nodes: createNodeStore(db),
    pulses: createPulseStore(db),
  }
}
