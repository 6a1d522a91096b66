// How the bus stands, and what to do about it.
import type { Tone } from '../../components/state-mark.tsx'

export interface BusStatus {
  readonly kind: 'local' | 'nats'
  readonly connected: boolean
  readonly open?: boolean | undefined
}
export interface BusWords {
  readonly tone: Tone
  readonly word: string
  readonly sentence: string
}

export function busSentence({ kind, connected, open }: BusStatus): BusWords {
  if (!connected)
    return { tone: 'bad', word: 'not connected', sentence: 'This controller can’t reach NATS: no worker hears it. Its log has the reason.' }
  if (kind === 'local')
    return {
      tone: 'good',
      word: 'in the process',
      sentence: 'Only workers of this very process are on it. For others, start with --nats-url (see docs/install.md).',
    }
  if (open === true)
    return {
      tone: 'wait',
      word: 'NATS, open',
      sentence:
        'Whoever reaches it can speak for every node. “muster nats-config” makes one that lets in only approved nodes; give controllers its seed as MUSTER_NATS_ACCOUNT_SEED_FILE.',
    }
  return { tone: 'good', word: 'NATS, connected', sentence: 'Nobody speaks for a node but the node.' }
}
