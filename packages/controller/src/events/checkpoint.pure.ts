// Computes up to which sequence number all changes were read. Numbers are drawn before commit, so an open transaction may still
// commit a smaller number than the largest one read. Such a transaction got its ID before it drew its number. So a transaction ID
// drawn after the largest number was read is larger, and that number is settled when every transaction with a smaller ID has
// ended (xmin has reached it).
// A foreign transaction that runs for hours on the same server must not block the cursor, so a checkpoint also settles by age: no
// transaction of Muster lasts that long (see store/connect.ts).

export type Checkpoint = Readonly<{ seq: number; xid: bigint; at: number }>
export type Checkpoints = Readonly<{
  /** Every change up to here was read. */
  settled: number
  /** Read up to here, but smaller numbers may still be committed. Oldest first. */
  open: readonly Checkpoint[]
}>

export type Snapshot = Readonly<{ highestSeq: number; xmin: bigint; xid: bigint | null; at: number }>

/** Longer than any transaction of Muster, also on PostgreSQL 15 and 16, which limit only statements and idle time. */
export const settleAfterMs = 60_000

export const startAt = (seq: number): Checkpoints => ({ settled: seq, open: [] })

export function advance(before: Checkpoints, snapshot: Snapshot): Checkpoints {
  const last = before.open.at(-1)?.seq ?? before.settled
  const isNew = snapshot.xid !== null && snapshot.highestSeq > last
  const open = isNew ? [...before.open, { seq: snapshot.highestSeq, xid: snapshot.xid, at: snapshot.at }] : before.open
  const isSettled = (point: Checkpoint): boolean => snapshot.xmin >= point.xid || snapshot.at - point.at > settleAfterMs
  const index = open.findLastIndex(isSettled)
  return { settled: open[index]?.seq ?? before.settled, open: open.slice(index + 1) }
}
