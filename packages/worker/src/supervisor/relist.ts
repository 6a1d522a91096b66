// A version that is listed by another of its digests from now on: what runs from it says that one too, or controllers would
// take it for another version, and replace it.
import type { Digest, ReplicaId } from '@muster/protocol'
import type { Announcer } from '../operations/announcer.ts'
import { isGone, save, type Replica, type ReplicaDeps } from './replica.ts'
import { newsOf } from './replica-words.ts'

/** `names`: every digest it goes by, its tree's among them. */
export type Relisted = Readonly<{ names: readonly Digest[]; listed: Digest }>

type Having = Readonly<{ replicas: ReadonlyMap<ReplicaId, Replica>; deps: ReplicaDeps; announcer: Announcer }>

/** Said when it resolves. */
export async function relist({ replicas, deps, announcer }: Having, { names, listed }: Relisted): Promise<void> {
  for (const replica of replicas.values()) {
    const said = replica.record.listed ?? replica.record.digest
    if (isGone(replica) || said === null || said === listed || !names.includes(said)) continue
    replica.record = { ...replica.record, listed }
    await save(replica, deps)
    for (const event of newsOf(replica.record)) announcer.say(event)
  }
}
