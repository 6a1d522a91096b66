// What a browser's cookie holds. One that was made with a key names that key: the session lasts no longer than it. It is
// found by the hash of all of it, so nobody can put another name there.
import { newSecret } from '@muster/host'

const ofKey = /^keysession_[A-Za-z0-9_-]{43}_([a-z0-9-]{1,64})$/

export const newSessionSecret = (keyId: string | null): string =>
  keyId === null ? newSecret('session') : `${newSecret('keysession')}_${keyId}`

export const keyOfSession = (secret: string): string | null => ofKey.exec(secret)?.[1] ?? null
