// Files of Hugging Face and S3 as files by https: the address, and the headers that authorize the request.
import type { Clock, Secret } from '@muster/host'
import { unreachable } from '@muster/protocol'
import { AwsV4Signer } from 'aws4fetch'
import type { OpenAt } from './create-file-client.ts'
import type { ModelUri } from './model-uri.ts'

export interface FileOrigins {
  readonly hf: { readonly endpoint: string; readonly token: Secret | null }
  readonly s3: S3Origin
}

export interface S3Origin {
  /** Null: Amazon's endpoint of the region. */
  readonly endpoint: string | null
  readonly region: string
  /** Null: requests are not signed. */
  readonly credentials: S3Credentials | null
}

export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: Secret
  readonly sessionToken: Secret | null
}

export type LocatedFile = Readonly<{ url: URL }> & Pick<OpenAt, 'headers' | 'howToLogIn'>

export function locateFile(
  uri: Extract<ModelUri, { kind: 'web' | 'hf' | 's3' }>,
  { origins, clock }: { origins: FileOrigins; clock: Clock },
): LocatedFile {
  switch (uri.kind) {
    case 'web':
      return { url: uri.url }
    case 'hf': {
      const { endpoint, token } = origins.hf
      const url = below(endpoint, `${uri.repository}/resolve/${encode(uri.revision)}/${uri.path.split('/').map(encode).join('/')}`)
      const howToLogIn = 'set --hf-token (MUSTER_HF_TOKEN) of workers to a token that may read it'
      return token === null
        ? { url, howToLogIn }
        : { url, howToLogIn, headers: async () => ({ authorization: `Bearer ${token.reveal()}` }) }
    }
    case 's3': {
      const { endpoint, region, credentials } = origins.s3
      // The bucket is in the path, not in the host: stores other than Amazon's support only this form, and Amazon's still does.
      const url = below(endpoint ?? `https://s3.${region}.amazonaws.com`, `${uri.bucket}/${uri.key.split('/').map(encode).join('/')}`)
      const howToLogIn = 'set --s3-access-key-id and --s3-secret-access-key of workers to a key that may read it'
      return credentials === null
        ? { url, howToLogIn }
        : { url, howToLogIn, headers: () => signed(url, { region, credentials, now: clock.now() }) }
    }
    default:
      return unreachable(uri)
  }
}

async function signed(
  url: URL,
  { region, credentials, now }: { region: string; credentials: S3Credentials; now: number },
): Promise<Record<string, string>> {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
  const signer = new AwsV4Signer({
    method: 'GET',
    url: url.href,
    service: 's3',
    region,
    accessKeyId,
    secretAccessKey: secretAccessKey.reveal(),
    ...(sessionToken === null ? {} : { sessionToken: sessionToken.reveal() }),
    datetime: new Date(now).toISOString().replaceAll(/[:-]|\.\d{3}/g, ''),
  })
  return Object.fromEntries((await signer.sign()).headers)
}

/** An endpoint may have a path of its own, as mirrors behind a proxy do. */
const below = (endpoint: string, path: string): URL => new URL(`${endpoint.replace(/\/+$/, '')}/${path}`)

/** The encoding of signatures: only letters, digits and four signs are not escaped. */
const encode = (part: string): string =>
  encodeURIComponent(part).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
