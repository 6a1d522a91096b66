import type { QueryClient } from '@tanstack/react-query'
import { keys } from '../../api/keys.ts'

/** A controller answers from what it has read for some seconds: only then does it tell of a new gallery. */
const sharedMs = 6_000

/** And what they offer, and what is newer there. */
export async function readGalleriesAgain(client: QueryClient): Promise<void> {
  const offered = (): Promise<unknown> =>
    Promise.all([keys.gallery, keys.upgrades].map((queryKey) => client.invalidateQueries({ queryKey })))
  setTimeout(() => void offered(), sharedMs)
  await Promise.all([client.invalidateQueries({ queryKey: keys.galleries }), offered()])
}
