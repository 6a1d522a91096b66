// A signal that aborts on Ctrl-C (or SIGTERM), for commands that go on until then. A second Ctrl-C
// finds no listener any more, and ends the process as it would any other.
export interface Interruption extends Disposable {
  readonly signal: AbortSignal
}

export function untilInterrupted(): Interruption {
  const controller = new AbortController()
  const stop = (): void => {
    release()
    controller.abort()
  }
  const release = (): void => {
    process.off('SIGINT', stop)
    process.off('SIGTERM', stop)
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return { signal: controller.signal, [Symbol.dispose]: release }
}
