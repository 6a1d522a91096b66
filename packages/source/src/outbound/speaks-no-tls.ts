// Whether a failed https request met a server that speaks plain http there. A wrong certificate is something else.
import { errorCode } from '@muster/host'
import { FleetError } from '@muster/protocol'

const codes: ReadonlySet<unknown> = new Set(['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])

export function speaksNoTls(error: unknown): boolean {
  return error instanceof FleetError && codes.has(errorCode(error.cause))
}
