// How the types of columns appear in TypeScript; tables.ts is generated in these terms.
import type { ColumnType } from 'kysely'

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue }

/** Parsed when read; written with JSON.stringify, because pg would turn an array into one of PostgreSQL's own. */
export type Json = ColumnType<JsonValue, string, string>

/** RFC 3339 in UTC, with milliseconds. */
export type Timestamp = ColumnType<string, string | Date, string | Date>

/** It has a default: leave it out when inserting, or not. */
export type Defaulted<T> =
  T extends ColumnType<infer Read, infer Insert, infer Update>
    ? ColumnType<Read, Insert | undefined, Update>
    : ColumnType<T, T | undefined, T>

/** The database alone writes it. */
export type Computed<T> =
  T extends ColumnType<infer Read, infer _Insert, infer _Update> ? ColumnType<Read, never, never> : ColumnType<T, never, never>
