// Whether a node can be asked: somebody let it in, it reports, and it answers.
import { sql } from 'kysely'

/** Of the rows `n` of `nodes` and `p` of `node_pulses`. Draining or not: what is ready there serves on until it is replaced. */
export const nodeIsHere = sql<boolean>`(n.approved_at is not null and p.liveness = 'present' and p.answering = 'yes')`
