import type { Insertable, Selectable, Updateable } from 'kysely'
import { expectTypeOf, it } from 'vitest'
import type { Computed, Defaulted, Json, JsonValue, Timestamp } from './column-types.ts'

interface Row {
  id: Computed<number>
  state: Defaulted<'a' | 'b'>
  at: Defaulted<Timestamp>
  seen: Timestamp | null
  note: Json
}

it('define the types for reading and writing (checked by the compiler)', () => {
  type Time = string | Date
  expectTypeOf<Selectable<Row>>().branded.toEqualTypeOf<{
    id: number
    state: 'a' | 'b'
    at: string
    seen: string | null
    note: JsonValue
  }>()
  expectTypeOf<Insertable<Row>>().branded.toEqualTypeOf<{ state?: 'a' | 'b'; at?: Time; seen?: Time | null; note: string }>()
  expectTypeOf<Updateable<Row>>().branded.toEqualTypeOf<{ state?: 'a' | 'b'; at?: Time; seen?: Time | null; note?: string }>()
})
