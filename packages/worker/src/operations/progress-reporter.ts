// How far one piece of work is, told not too often: the first at once, then at most one per interval,
// and always the last. Whoever does the work only leaves a note here; telling happens outside its way.
import type { Clock } from '@muster/host'
import type { Phase } from '@muster/protocol'
import type { InstallProgress } from './installer.ts'

/** `seq` grows whenever something has moved, or was seen to go on. */
export type ProgressState = Readonly<{
  phase: Phase | null
  fileName: string
  current: number
  total: number
  percentage: number
  seq: number
}>

export interface ProgressReporter {
  report(progress: InstallProgress): void
  /** It goes on, and there is nothing else to show. */
  sign(): void
  now(): ProgressState
  /** Tells the last one, whatever was told before; nothing when the work is only left for later. */
  end(how: 'succeeded' | 'failed' | 'cancelled' | 'left'): void
}

const intervalMs = 250

export interface ReporterDeps {
  readonly tell: (state: ProgressState) => void
  /** Higher each time, over restarts too. */
  readonly nextSeq: () => number
  readonly clock: Clock
}

export function createProgressReporter({ tell, nextSeq, clock }: ReporterDeps): ProgressReporter {
  const ended = new AbortController()
  let state: ProgressState = { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: nextSeq() }
  let isBegun = false
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
  const moveTo = (moved: ProgressState): void => {
    if (ended.signal.aborted) return
    state = { ...moved, seq: nextSeq() }
    isNews = true
    if (isTelling) return
    isTelling = true
    void tellOn()
  }
  return {
    now: () => state,
    report(progress) {
      const moved = next(state, progress)
      // Whoever says the same again (a download that is begun anew and gets no byte) has not moved.
      if (isBegun && isSame(moved, state)) return
      isBegun = true
      moveTo(moved)
    },
    sign: () => moveTo(state),
    end(how) {
      if (ended.signal.aborted) return
      ended.abort()
      if (how === 'left') return
      if (how === 'succeeded') state = { ...state, current: Math.max(state.current, state.total), percentage: 100 }
      tell({ ...state, seq: nextSeq() })
    },
  }
}

const isSame = (a: ProgressState, b: ProgressState): boolean =>
  a.phase === b.phase && a.fileName === b.fileName && a.current === b.current && a.total === b.total

/** Bytes are what they are, also when some have to be fetched anew; the percentage never goes back. */
function next(before: ProgressState, { phase, fileName = '', current, total }: InstallProgress): ProgressState {
  const [done, all] = [wholeBytes(current, before.current), wholeBytes(total, before.total)]
  const share = all > 0 ? Math.min(100, Math.floor((done / all) * 1000) / 10) : 0
  return { ...before, phase, fileName: fileName.slice(0, 1024), current: done, total: all, percentage: Math.max(before.percentage, share) }
}

const wholeBytes = (bytes: number | undefined, before: number): number =>
  bytes === undefined ? before : Number.isSafeInteger(Math.trunc(bytes)) ? Math.max(0, Math.trunc(bytes)) : 0
