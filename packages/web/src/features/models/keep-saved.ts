import type { ModelView } from '@muster/protocol'
import type { QueryClient } from '@tanstack/react-query'
import { keys } from '../../api/keys.ts'
import { modelsQuery } from '../../api/queries.ts'

/** The event says the same in a moment; what is shown meanwhile is not the old one. */
export function keepSaved(queries: QueryClient, saved: ModelView): void {
  queries.setQueryData(modelsQuery.queryKey, (all) => all?.map((each) => (each.name === saved.name ? saved : each)))
  void queries.invalidateQueries({ queryKey: keys.model(saved.name, 'placement') })
}
