// One conversation for the whole page, wherever one goes.
import { createContext, useContext, useSyncExternalStore } from 'react'
import { PlaygroundStore, type PlaygroundState } from './playground-store.ts'

const StoreContext = createContext(new PlaygroundStore())

export function usePlayground(): readonly [PlaygroundState, PlaygroundStore] {
  const store = useContext(StoreContext)
  return [useSyncExternalStore(store.subscribe, store.state), store]
}
