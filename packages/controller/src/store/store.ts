// All queries of a controller, by the table they own.
import type { Kysely } from 'kysely'
import { AccessStore } from './access.ts'
import { ChangeStore } from './changes.ts'
import { ControllerStore } from './controllers.ts'
import { GalleryStore } from './galleries.ts'
import { NodeStore } from './nodes.ts'
import { PulseStore } from './pulses.ts'
import type { Database } from './tables.ts'

export type Store = ReturnType<typeof createStore>

export function createStore(db: Kysely<Database>) {
  return {
    access: new AccessStore(db),
    changes: new ChangeStore(db),
    controllers: new ControllerStore(db),
    galleries: new GalleryStore(db),
    nodes: new NodeStore(db),
    pulses: new PulseStore(db),
  }
}
