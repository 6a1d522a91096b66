// Writes down the schema that the migrations make: schema.sql for people and reviews, tables.ts for kysely.
// Run it after writing a migration; schema.int.test.ts fails until it was.
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Secret, silentLog, systemClock } from '@muster/host'
import { startEmbedded } from '../packages/controller/src/postgres/embedded.ts'
import { connectDatabase } from '../packages/controller/src/store/connect.ts'
import { migrate } from '../packages/controller/src/store/migrate.ts'
import { dumpSchema } from '../packages/controller/src/store/schema-dump.ts'
import { generateTableTypes } from '../packages/controller/src/store/table-types.ts'

const store = join(import.meta.dirname, '..', 'packages', 'controller', 'src', 'store')
const dir = await mkdtemp(join(tmpdir(), 'muster-dump-schema-'))
try {
  await chmod(dir, 0o711) // As root, the server is another user and has to get through.
  const options = { dataDir: join(dir, 'data'), systemBase: join(dir, 'system'), clock: systemClock, log: silentLog }
  const postgres = await startEmbedded(options)
  const { pool, close } = connectDatabase({
    to: { connection: { ...postgres.connection, password: new Secret(postgres.connection.password) } },
    applicationName: 'dump-schema',
    log: silentLog,
  })
  try {
    await migrate({ pool, directory: join(store, 'migrations'), log: silentLog, afterwards: async () => undefined })
    await writeFile(join(store, 'schema.sql'), await dumpSchema(pool))
    await writeFile(join(store, 'tables.ts'), await generateTableTypes(pool))
  } finally {
    await close()
    await postgres.stop()
  }
} finally {
  await rm(dir, { recursive: true })
}
