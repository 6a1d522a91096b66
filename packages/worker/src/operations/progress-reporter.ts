// How far one piece of work is, told not too often: the first at once, then at most one per interval,
// and always the last. Whoever does the work only leaves a note here; telling happens outside its way.
import type { Clock } from '@muster/host'
import type { Phase } from '@muster/protocol'
import type { InstallProgress } from './installer.ts'

export type ProgressState = Readonly<{ phase: Phase | null; fileName: string; current: number; total: number; percentage: number }>

export interface ProgressReporter {
  report(progress: InstallProgress): void
  now(): ProgressState
  /** Tells the last one, whatever was told before; nothing when the work is only left for later. */
  end(how: 'succeeded' | 'failed' | 'cancelled' | 'left'): void
}

const intervalMs = 250

export function createProgressReporter({ tell, clock }: { tell: (state: ProgressState) => void; clock: Clock }): ProgressReporter {
  const ended = new AbortController()
  let state: ProgressState = { phase: null, fileName: '', current: 0, total: 0, percentage: 0 }
  let isNews = false
  let isTelling = false

  const tellOn = async (): Promise<void> => {
    // Not within the caller's own turn.
    await Promise.resolve()
    while (isNews && !ended.signal.aborted) {
      isNews = false
      tell(state)
      await clock.sleep(intervalMs, ended.signal).catch(() => undefined)
    }
    isTelling = false
  }
  return {
    now: () => state,
    report(progress) {
      state = next(state, progress)
      isNews = true
      if (isTelling || ended.signal.aborted) return
      isTelling = true
      void tellOn()
    },
    end(how) {
      if (ended.signal.aborted) return
      ended.abort()
      if (how === 'left') return
      if (how === 'succeeded') state = { ...state, current: Math.max(state.current, state.total), percentage: 100 }
      tell(state)
    },
  }
}

/** Bytes are what they are, also when some have to be fetched anew; the percentage never goes back. */
function next(before: ProgressState, { phase, fileName = '', current, total }: InstallProgress): ProgressState {
  const [done, all] = [wholeBytes(current, before.current), wholeBytes(total, before.total)]
  const share = all > 0 ? Math.min(100, Math.floor((done / all) * 1000) / 10) : 0
  return { phase, fileName: fileName.slice(0, 1024), current: done, total: all, percentage: Math.max(before.percentage, share) }
}

const wholeBytes = (bytes: number | undefined, before: number): number =>
  bytes === undefined ? before : Number.isSafeInteger(Math.trunc(bytes)) ? Math.max(0, Math.trunc(bytes)) : 0
