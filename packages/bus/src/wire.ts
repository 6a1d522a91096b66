// What a transport must do: carry text under subjects. Everything above that (schemas, requests,
// handlers, counting) is connection.ts and the same for both.

export interface Packet {
  readonly subject: string
  /** JSON text; null when the bytes were not even UTF-8. */
  readonly text: string | null
  /** Where an answer is awaited; null when none is. */
  readonly reply: string | null
  /** `failure`: the answer of a handler that threw · `no_responders`: the request reached nobody. */
  readonly kind: 'message' | 'failure' | 'no_responders'
}

export interface OutgoingPacket extends Packet {
  readonly text: string
}

export interface Listener {
  /** Nothing is delivered any more. */
  stop(): void
  /** What was sent before is still delivered; resolves when nothing more can come. */
  drain(): Promise<void>
}

export interface Wire {
  /** A subject prefix that this connection alone hears: answers come to `<inbox>.<token>`. */
  readonly inbox: string
  /** False: there is no connection, the packet is lost. Throws BusError `too_large` when the server takes less than we do. */
  send(packet: OutgoingPacket): boolean
  /** Lasts over lost connections, and may begin before there is one. `deliver` must not throw. */
  listen(pattern: string, queue: string | null, deliver: (packet: Packet) => void): Listener
  ping(): Promise<void>
  /** Sends what is buffered, for at most so long, and closes for good. */
  close(flushMs: number): Promise<void>
}

/** What a transport tells on its own account. */
export interface WireEvents {
  connected(isConnected: boolean): void
  /** The server does not let us send to this subject. */
  refused(subject: string, reason: string): void
}
