import type { QueryClient } from '@tanstack/react-query'
import { galleriesQuery } from '../../api/queries.ts'

/** And what they offer, and what is newer there. */
export async function readGalleriesAgain(client: QueryClient): Promise<void> {
  await Promise.all([galleriesQuery.queryKey, ['gallery'], ['upgrades']].map((queryKey) => client.invalidateQueries({ queryKey })))
}
