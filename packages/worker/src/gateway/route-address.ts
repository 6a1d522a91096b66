// Which of this machine's addresses leads to another one: what the kernel would send from.
// A connected UDP socket knows, and nothing is sent for it; the other side need not even be up.
import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'

export async function routeAddress(towards: URL): Promise<string> {
  const { address, family } = await lookup(towards.hostname.replace(/^\[(.*)\]$/, '$1'))
  const socket = createSocket(family === 6 ? 'udp6' : 'udp4')
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.connect(Number(towards.port) || (towards.protocol === 'https:' ? 443 : 80), address, resolve)
    })
    return socket.address().address
  } finally {
    socket.close()
  }
}
