// The names under which answers are kept, for whoever reads them (queries.ts) and whoever makes them true again
// (live-cache.ts): one that is renamed here is renamed for both.
import type { OperationFilter } from '@muster/protocol'
import type { QueryKey } from '@tanstack/react-query'

export type OfNode = 'intents' | 'backends' | 'replicas' | 'history'
export type OfModel = 'replicas' | 'load-status' | 'placement'

export const keys = {
  nodes: ['nodes'],
  node: (id: string, what: OfNode) => ['node', id, what] as const,
  backends: ['backends'],
  upgrades: ['upgrades'],
  /** What all galleries offer. */
  gallery: ['gallery'],
  galleryOf: (what: 'backends' | 'models') => ['gallery', what] as const,
  galleries: ['galleries'],
  models: ['models'],
  model: (name: string, what: OfModel) => ['model', name, what] as const,
  /** Below the placement as it is: what changes that one changes this. */
  placementPreview: (name: string, scheduling: string | null) => ['model', name, 'placement', scheduling] as const,
  operations: (filter: OperationFilter) => ['operations', filter] as const,
  operation: (id: string) => ['operation', id] as const,
  stats: ['stats'],
  status: ['status'],
  settings: ['settings'],
  apiKeys: ['keys'],
  joinToken: ['join-token'],
  dryRun: (wish: string | null, world: string) => ['dry-run', wish, world] as const,
  validation: (name: string | null, text: string) => ['validate', name, text] as const,
} as const

type Keyed = { readonly queryKey: QueryKey }

/** Such lists of whichever node or model. */
export const isOfSomeNode =
  (list: OfNode) =>
  ({ queryKey: [owner, , what] }: Keyed): boolean =>
    owner === 'node' && what === list
export const isOfSomeModel =
  (list: OfModel) =>
  ({ queryKey: [owner, , what] }: Keyed): boolean =>
    owner === 'model' && what === list
export const isOperation = ({ queryKey: [what] }: Keyed): boolean => what === 'operation'
