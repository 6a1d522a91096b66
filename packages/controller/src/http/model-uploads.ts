// PUT /api/models/:name/files/:filename: bytes of any size, which go straight on to workers.
import { modelRoutes as routes, type ModelName } from '@muster/protocol'
import { InvalidConfig } from '../models/parse-config.ts'
import type { ReceiveUpload } from '../models/receive-upload.ts'
import type { ModelStore } from '../store/models.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, toHttpError } from './http-error.ts'
import { noSuchModel } from './models.ts'

export interface ModelUploadDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly receive: ReceiveUpload
  readonly wake: (model: ModelName) => Promise<void>
}

/** Nobody has a larger file; beyond it numbers are no longer exact. */
const maxSizeBytes = 2 ** 50

export function modelUploadEndpoints({ models, receive, wake }: ModelUploadDeps): Endpoint[] {
  return [
    endpoint(routes.upload, async ({ params: { name, filename }, headers, request, signal }) => {
      if ((await models.find(name)) === null) throw closing(noSuchModel(name))
      const sizeBytes = announcedSize(headers)
      const body = request.body ?? []
      try {
        const { digest, sizeBytes: size, kept } = await receive({ model: name, filename, sizeBytes, body: bytesOf(body), signal })
        await wake(name)
        return { filename, digest, size, nodes: kept.map(({ id }) => id) }
      } catch (error) {
        if (error instanceof InvalidConfig) throw closing(new HttpError(400, 'invalid', error.message, { details: { ...error.problem } }))
        throw closing(toHttpError(error))
      }
    }),
  ]
}

async function* bytesOf(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) yield chunk
}

function announcedSize(headers: Headers): number | null {
  const given = headers.get('content-length')
  if (given === null) return null
  const size = Number(given)
  if (!Number.isSafeInteger(size) || size > maxSizeBytes)
    throw closing(new HttpError(413, 'too_large', `${given} bytes are too many for one file`))
  return size
}

/** What is left of the body is read by nobody. A full disk has a status of its own. */
function closing(error: HttpError): HttpError {
  const status = error.code === 'disk_full' ? 507 : error.status
  return new HttpError(status, error.code, error.message, {
    ...(error.details === undefined ? {} : { details: error.details }),
    headers: { ...error.headers, connection: 'close' },
    cause: error.cause,
  })
}
