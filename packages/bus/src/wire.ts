// The transport below a bus connection: carries text under subjects. Schemas, requests, handlers and counts are in
// connection.ts, the same for both transports.

export interface Packet {
  readonly subject: string
  /** JSON text; null when the bytes were not UTF-8. */
  readonly text: string | null
  /** The subject for the answer; null when none is expected. */
  readonly reply: string | null
  /** `failure`: the answer of a handler that threw · `no_responders`: no responder received the request. */
  readonly kind: 'message' | 'failure' | 'no_responders'
}

export interface OutgoingPacket extends Packet {
  readonly text: string
}

export interface Listener {
  /** Ends the delivery. */
  stop(): void
  /** Packets that were sent before are still delivered; resolves when no more can come. */
  drain(): Promise<void>
}

export interface Wire {
  /** A subject prefix that only this connection receives: answers come to `<inbox>.<token>`. */
  readonly inbox: string
  /** False: there is no connection, the packet is lost. Throws BusError `too_large` when the server's limit is lower. */
  send(packet: OutgoingPacket): boolean
  /** Survives lost connections, and may begin before there is one. `deliver` must not throw. */
  listen(pattern: string, queue: string | null, deliver: (packet: Packet) => void): Listener
  ping(): Promise<void>
  /** Flushes for at most `flushMs`, then closes for good. */
  close(flushMs: number): Promise<void>
}

/** Events of the transport itself. */
export interface WireEvents {
  connected(isConnected: boolean): void
  /** The server refused a message to this subject. */
  refused(subject: string, reason: string): void
}
