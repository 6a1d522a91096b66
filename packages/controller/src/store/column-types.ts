// The TypeScript types of columns. The generated tables.ts uses them.
import type { ColumnType } from 'kysely'

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** Parsed when read. Write it with JSON.stringify, because pg converts arrays to PostgreSQL arrays. */
export type Json = ColumnType<JsonValue, string, string>

/** RFC 3339 in UTC, with milliseconds. */
export type Timestamp = ColumnType<string, string | Date, string | Date>

/** Has a default, so an insert may leave it out. */
export type Defaulted<T> =
  T extends ColumnType<infer Read, infer Insert, infer Update>
    ? ColumnType<Read, Insert | undefined, Update>
    : ColumnType<T, T | undefined, T>

/** Written by the database only. */
export type Computed<T> =
  T extends ColumnType<infer Read, infer _Insert, infer _Update> ? ColumnType<Read, never, never> : ColumnType<T, never, never>
