// Whether whoever asked is still there. A plain object: there is one per request, and an AbortSignal costs more than the rest of the way.
export class ClientLink {
  isGone = false
  #onGone: (() => void) | null = null

  /** One at a time, replaced by the next: what is under way for the client now. */
  onGone(stop: (() => void) | null): void {
    this.#onGone = stop
    if (this.isGone) stop?.()
  }

  leave(): void {
    if (this.isGone) return
    this.isGone = true
    this.#onGone?.()
  }
}
