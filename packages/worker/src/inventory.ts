// What is installed on this node.
import type { InstalledBackend } from '@muster/protocol'

export interface Inventory {
  list(): Promise<readonly InstalledBackend[]>
}

export const emptyInventory: Inventory = { list: async () => [] }
