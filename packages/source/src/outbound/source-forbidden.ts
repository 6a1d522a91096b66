// A way out that is closed on purpose. Trying again does not help; an operator has to list the source or change it.
import { FleetError } from '@muster/protocol'

export class SourceForbidden extends FleetError {
  constructor(reason: string) {
    super({ code: 'invalid', retry: 'never', message: `source_forbidden: ${reason}`.slice(0, 2000) })
    this.name = 'SourceForbidden'
  }
}

/** Queries carry signatures and user info carries passwords: neither is for a log or a message. */
export const showUrl = (url: URL): string => `${url.protocol}//${url.host}${url.pathname}`.slice(0, 300)
