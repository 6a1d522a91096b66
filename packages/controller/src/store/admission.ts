// Whether every controller knows of the last change of a replica: asks it since it may be asked, or no longer does.
import { sql } from 'kysely'

/** A controller that was not seen for that long is gone, or cut off: three of its rounds of housekeeping. */
const liveMs = 15_000

/** Of the row `c` of `changes`. One that has told nothing yet has not caught up. Asked once per statement, not per row. */
export const isCaughtUp = sql`coalesce(c.seq, 0) <= (
  select coalesce(min(k.routes_seq), 9223372036854775807) from controllers k
  where k.last_seen_at > now() - make_interval(secs => ${sql.lit(liveMs / 1000)}))`
