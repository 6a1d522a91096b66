// What a process says when it is asked how it is, and for which model it says so.
import { z } from 'zod'
import type { Dispatcher } from 'undici'
import type { ReplicaSpec } from './driver.ts'

/** `model` and `replica_id` are optional; whoever says them is held to them. */
const Said = z.object({ model: z.string().optional(), replica_id: z.string().nullish() })

export type Health = Readonly<{ status: number; text: string }>
export type Identity = 'ours' | 'unnamed' | Readonly<{ other: string }>

const largestAnswer = 64 * 1024

/** Throws when there is no answer of HTTP. */
export async function askHealth(dispatcher: Dispatcher, path: string, signal?: AbortSignal): Promise<Health> {
  const { statusCode, body } = await dispatcher.request({ path, method: 'GET', ...(signal === undefined ? {} : { signal }) })
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    if (!Buffer.isBuffer(chunk)) continue
    length += chunk.length
    if (length > largestAnswer) throw new Error('its answer is too long to be about its health')
    chunks.push(chunk)
  }
  return { status: statusCode, text: Buffer.concat(chunks).toString('utf8') }
}

/** F11: a process that answers for another model is not ours, however healthy it is. */
export function identityIn({ text }: Health, { model, modelPath, replicaId }: ReplicaSpec): Identity {
  const said = Said.safeParse(parse(text))
  if (!said.success) return 'unnamed'
  const { model: named, replica_id: replica } = said.data
  if (named !== undefined && named !== model && named !== modelPath) return { other: `the model ${quote(named)}` }
  if (typeof replica === 'string' && replica !== replicaId) return { other: `the replica ${quote(replica)}` }
  return named === undefined && typeof replica !== 'string' ? 'unnamed' : 'ours'
}

const quote = (text: string): string => JSON.stringify(text.slice(0, 200))

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
