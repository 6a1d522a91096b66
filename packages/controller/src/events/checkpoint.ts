// How far what was read of the changes can be trusted. Sequence numbers are drawn before commit, so a
// transaction still under way may yet commit a smaller number than the largest one seen. Whoever holds
// a number ≤ the largest had begun before the snapshot that showed it; so that largest number is
// settled once every transaction begun before that snapshot has ended: xmin then ≥ that xmax.
// A foreign transaction that runs for hours on the same server must not hold up events, so a
// checkpoint also settles by age: no transaction of ours may last that long (see store/connect.ts).
// Pure.

export type Checkpoint = Readonly<{ seq: number; xmax: bigint; at: number }>
export type Checkpoints = Readonly<{
  /** Every change up to here was seen. */
  settled: number
  /** Seen up to here, but something smaller may still come. Oldest first. */
  open: readonly Checkpoint[]
}>

export type Snapshot = Readonly<{ highestSeq: number; xmin: bigint; xmax: bigint; at: number }>

/** Longer than any transaction of ours can last. */
export const settleAfterMs = 30_000

export const startAt = (seq: number): Checkpoints => ({ settled: seq, open: [] })

export function advance(before: Checkpoints, snapshot: Snapshot): Checkpoints {
  const last = before.open.at(-1)?.seq ?? before.settled
  const open =
    snapshot.highestSeq > last ? [...before.open, { seq: snapshot.highestSeq, xmax: snapshot.xmax, at: snapshot.at }] : before.open
  const isSettled = (point: Checkpoint): boolean => snapshot.xmin >= point.xmax || snapshot.at - point.at > settleAfterMs
  const index = open.findLastIndex(isSettled)
  return { settled: open[index]?.seq ?? before.settled, open: open.slice(index + 1) }
}
