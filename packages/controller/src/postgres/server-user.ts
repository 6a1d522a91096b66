// Whom the server runs as. PostgreSQL refuses to run as root, so root gives it to `nobody`.
import { readFileSync } from 'node:fs'

export type ServerUser = Readonly<{ uid: number; gid: number }>

/** Null: the user that runs Muster. */
export function serverUser(): ServerUser | null {
  return process.getuid?.() === 0 ? nobody() : null
}

function nobody(): ServerUser {
  const unmapped = { uid: 65534, gid: 65534 }
  try {
    const line = readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((each) => each.startsWith('nobody:'))
    const [, , uid, gid] = line?.split(':') ?? []
    const found = { uid: Number(uid), gid: Number(gid) }
    // macOS writes -2 for it, which is the same user as an unsigned number.
    return Number.isInteger(found.uid) && found.uid > 0 && Number.isInteger(found.gid) && found.gid > 0 ? found : unmapped
  } catch {
    return unmapped
  }
}
