// Finds a free port, for programs that cannot choose a port and report it.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Another program may take it before you do: prefer port 0 wherever the program reports what it got. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port')
  return address.port
}
