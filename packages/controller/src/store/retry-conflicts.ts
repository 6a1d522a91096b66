// Statements that touch many rows can meet in a circle; PostgreSQL then gives one of them up. Nothing of it was written,
// so it is simply run again. The pause is the other one's time to finish.
import { setTimeout as pause } from 'node:timers/promises'
import { errorCode } from '@muster/host'

/** Deadlock, serialization failure. */
const conflicts = new Set<unknown>(['40P01', '40001'])
const tries = 5

export async function retryConflicts<T>(run: () => Promise<T>): Promise<T> {
  for (let left = tries; ; left -= 1) {
    try {
      return await run()
    } catch (error) {
      if (left <= 1 || !conflicts.has(errorCode(error))) throw error
      await pause((tries - left + 1) * 20)
    }
  }
}
