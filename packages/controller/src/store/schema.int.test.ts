// schema.sql and tables.ts match the migrations, on the oldest and on the newest PostgreSQL.
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { silentLog } from '@muster/host'
import { startTestPostgres, type TestPostgres } from '@muster/testkit'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { connectDatabase, type ConnectedDatabase } from './connect.ts'
import { migrate } from './migrate.ts'
import { dumpSchema } from './schema-dump.ts'
import { generateTableTypes } from './table-types.ts'

const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url))
const hint = 'run `npm run db:dump` and commit what it wrote'

describe.each([15, 18] as const)('on PostgreSQL %i', (version) => {
  let postgres: TestPostgres
  let database: ConnectedDatabase<unknown>

  beforeAll(async () => {
    postgres = await startTestPostgres({ version })
  })
  afterAll(() => postgres.stop())
  beforeEach(async () => {
    const url = postgres.url(await postgres.createDatabase())
    database = connectDatabase({ to: { url }, applicationName: 'schema test', log: silentLog })
  })
  afterEach(() => database.close())

  it('the migrations make the schema that is written down', async () => {
    await migrate({ pool: database.pool, directory: pathOf('./migrations'), log: silentLog, afterwards: async () => undefined })
    expect(await dumpSchema(database.pool), hint).toBe(await readFile(pathOf('./schema.sql'), 'utf8'))
    expect(await generateTableTypes(database.pool), hint).toBe(await readFile(pathOf('./tables.ts'), 'utf8'))
  })

  it('everything that a migration can make is written down, in the same words', async () => {
    await database.pool.query(everything)
    expect(await dumpSchema(database.pool)).toBe(dumpOfEverything)
    expect(await generateTableTypes(database.pool)).toBe(typesOfEverything)
  })

  it.each([
    ['a view', 'create view v as select 1 as x'],
    ['a type', "create type mood as enum ('good', 'bad')"],
    ['a partitioned table', 'create table p (x int) partition by hash (x)'],
  ])('%s is not left out silently', async (_, sql) => {
    await database.pool.query(sql)
    await expect(dumpSchema(database.pool)).rejects.toThrow('schema-dump.ts does not support')
  })
})

const everything = `
  create sequence ticks increment by 2 start with 5;
  create unlogged table scratch (at timestamptz);
  create table parent (id int generated always as identity primary key, kind text check (kind in ('a', 'b')));
  create table child (
    parent int references parent on delete cascade, tick bigint not null default nextval('ticks'),
    twice bigint generated always as (tick * 2) stored, kinds text[] not null default '{}' check (kinds <@ array['x', 'y']),
    at timestamptz default now(), raw bytea, note jsonb, exclude using btree (tick with =)
  ) with (fillfactor = 70);
  create unique index child_once on child (parent, lower(kinds[1])) where note is not null;
  create function touch() returns trigger language plpgsql as $$ begin new.at = now(); return new; end $$;
  create trigger touch before update on child for each row when (old.note is distinct from new.note) execute function touch();`

const dumpOfEverything = `create sequence ticks as bigint increment by 2 start with 5;

create table child (
  parent integer,
  tick bigint not null default nextval('ticks'::regclass),
  twice bigint generated always as ((tick * 2)) stored,
  kinds text[] not null default '{}'::text[],
  at timestamp with time zone default now(),
  raw bytea,
  note jsonb,
  constraint child_parent_fkey FOREIGN KEY (parent) REFERENCES parent(id) ON DELETE CASCADE,
  constraint child_kinds_check CHECK ((kinds <@ ARRAY['x'::text, 'y'::text])),
  constraint child_tick_excl EXCLUDE USING btree (tick WITH =)
) with (fillfactor=70);

create table parent (
  id integer not null generated always as identity,
  kind text,
  constraint parent_pkey PRIMARY KEY (id),
  constraint parent_kind_check CHECK ((kind = ANY (ARRAY['a'::text, 'b'::text])))
);

create unlogged table scratch (
  at timestamp with time zone
);

CREATE UNIQUE INDEX child_once ON public.child USING btree (parent, lower(kinds[1])) WHERE (note IS NOT NULL);

CREATE OR REPLACE FUNCTION public.touch()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ begin new.at = now(); return new; end $function$;

CREATE TRIGGER touch BEFORE UPDATE ON public.child FOR EACH ROW WHEN ((old.note IS DISTINCT FROM new.note)) EXECUTE FUNCTION touch();
`

const typesOfEverything = `// Generated from the migrations by \`npm run db:dump\`. Do not edit.
import type { Computed, Defaulted, Json, Timestamp } from './column-types.ts'

export interface ChildTable {
  parent: number | null
  tick: Defaulted<number>
  twice: Computed<number | null>
  kinds: Defaulted<('x' | 'y')[]>
  at: Defaulted<Timestamp | null>
  raw: Buffer | null
  note: Json | null
}

export interface ParentTable {
  id: Computed<number>
  kind: 'a' | 'b' | null
}

export interface ScratchTable {
  at: Timestamp | null
}

export interface Database {
  child: ChildTable
  parent: ParentTable
  scratch: ScratchTable
}
`
