// What the browser keeps for this tab until it is closed, or until whoever uses it logs out.
let isForgotten = false

export function keep(key: string, value: unknown): void {
  if (isForgotten) return
  try {
    sessionStorage.setItem(key, JSON.stringify(value))
  } catch {
    // A browser that keeps nothing for anybody: then it is gone with the page.
  }
}

/** For the next person at this tab; also what would be kept as this page goes. */
export function forgetAll(): void {
  isForgotten = true
  try {
    sessionStorage.clear()
  } catch {
    // As above: there is nothing.
  }
}
