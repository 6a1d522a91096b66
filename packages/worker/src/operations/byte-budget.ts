// A memory budget for bytes that were received and not yet written, shared by all running work. It bounds bytes, not the
// number of commands: each account may always hold its minimum, so it proceeds even if others never release theirs.
// A reservation beyond the minimum waits until there is room.

export interface ByteAccount {
  /** Resolves with the release function when the bytes may be held. */
  reserve(bytes: number, signal: AbortSignal): Promise<() => void>
}

export interface ByteBudget {
  openAccount(): ByteAccount
  /** Held by all accounts together. */
  held(): number
}

type Waiter = { readonly bytes: number; readonly account: { held: number }; readonly admit: () => void }

/** At most `totalBytes`, plus `minimumBytes` per account; a reservation larger than the budget is admitted alone. */
export function createByteBudget({ totalBytes, minimumBytes }: { totalBytes: number; minimumBytes: number }): ByteBudget {
  const waiting = new Set<Waiter>()
  let held = 0
  const fits = (account: { held: number }, bytes: number): boolean =>
    account.held + bytes <= minimumBytes || held + bytes <= totalBytes || held === 0
  const hold = (account: { held: number }, bytes: number): void => {
    held += bytes
    account.held += bytes
  }
  const admitWaiters = (): void => {
    for (const waiter of waiting) {
      if (!fits(waiter.account, waiter.bytes)) continue
      waiting.delete(waiter)
      waiter.admit()
    }
  }
  return {
    held: () => held,
    openAccount() {
      const account = { held: 0 }
      const releaser = (bytes: number) => {
        let isHeld = true
        return (): void => {
          if (!isHeld) return
          isHeld = false
          hold(account, -bytes)
          admitWaiters()
        }
      }
      return {
        async reserve(bytes, signal) {
          signal.throwIfAborted()
          if (!fits(account, bytes)) await room({ waiting, account, bytes, signal, hold })
          else hold(account, bytes)
          return releaser(bytes)
        },
      }
    },
  }
}

type Room = Readonly<{
  waiting: Set<Waiter>
  account: { held: number }
  bytes: number
  signal: AbortSignal
  hold: (account: { held: number }, bytes: number) => void
}>

function room({ waiting, account, bytes, signal, hold }: Room): Promise<void> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      waiting.delete(waiter)
      reject(signal.reason)
    }
    const waiter: Waiter = {
      bytes,
      account,
      admit: () => {
        signal.removeEventListener('abort', onAbort)
        hold(account, bytes)
        resolve()
      },
    }
    signal.addEventListener('abort', onAbort, { once: true })
    waiting.add(waiter)
  })
}
