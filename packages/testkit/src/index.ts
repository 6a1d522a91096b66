export { createApiClient } from './api-client.ts'
export type { ApiAnswer, ApiClient, ApiOptions } from './api-client.ts'
export { openBrowser } from './browser.ts'
export { adminKey, joinToken, nodesOf, startCluster, untilReady } from './cluster.ts'
export type { ClusterOptions, RunningController, SeenNode, WorkerOptions } from './cluster.ts'
export { checkDisk } from './disk-model.ts'
export type { DiskReport, DiskRules, FileCall } from './disk-model.ts'
export { readEvents } from './event-reader.ts'
export type { EventReader, SeenEvent } from './event-reader.ts'
export { startFileServer } from './file-server.ts'
export type { FileServer, ServedFile } from './file-server.ts'
export { freePort } from './free-port.ts'
export { startLoopbackServer, type LoopbackServer } from './loopback-server.ts'
export { startHostileRegistry } from './hostile-registry.ts'
export type { Guard, HostileRegistry, SeenRequest } from './hostile-registry.ts'
export { digestOf, makeDocument, makeImage, makeIndex } from './image-fixture.ts'
export type { ImageDocument, ImageFixture, ImageOptions, ImagePlatform } from './image-fixture.ts'
export type { Behaviour } from './misbehave.ts'
export { createLegacyController } from './legacy-controller.ts'
export type { LegacyController, LegacyProgress } from './legacy-controller.ts'
export { startLegacyWorker } from './legacy-worker.ts'
export type { LegacyReply, LegacyRequest, LegacyWork, LegacyWorker, LegacyWorkerOptions } from './legacy-worker.ts'
export { copyLocalAiBackend, localAiBackend } from './localai-backend.ts'
export type { LocalAiScript } from './localai-backend.ts'
export { canMakeNetworks, makeNetwork } from './network.ts'
export type { Network } from './network.ts'
export { startNats } from './nats.ts'
export type { NatsServer } from './nats.ts'
export { createNodeCaller } from './node-caller.ts'
export type { NodeCaller } from './node-caller.ts'
export { administer, startSharedPostgres, startTestPostgres } from './postgres.ts'
export type { TestPostgres, TestPostgresOptions } from './postgres.ts'
export { createProcesses } from './processes.ts'
export type { Exit, Processes, StartedProcess, StartOptions } from './processes.ts'
export { startRegistry } from './registry.ts'
export type { Registry } from './registry.ts'
export { copyScriptedBackend, scripted, scriptedBackend } from './scripted-backend.ts'
export type { ScriptedAnswer, ScriptedHabits, ScriptedLife, ScriptedState } from './scripted-backend.ts'
export { isLongRun, sampleCases } from './long-run.ts'
export { makeCertificate } from './self-signed.ts'
export type { Certificate } from './self-signed.ts'
export {
  gnuLong,
  layerFrom,
  layerOf,
  pax,
  paxRecord,
  sha256,
  tar,
  tarEntry,
  tarHeader,
  tarWithoutEnd,
  zstdWithWindow,
} from './tar-fixtures.ts'
export type { Layer, LayerCompression, TarEntry } from './tar-fixtures.ts'
export { makeTempDir } from './temp-dir.ts'
export type { TempDir } from './temp-dir.ts'
export { startTestController } from './test-controller.ts'
export type { TestController, TestControllerOptions } from './test-controller.ts'
export { createTestDatabase } from './test-database.ts'
export type { Template, TestDatabase, TestDatabaseOptions } from './test-database.ts'
export { boundMs, waitFor } from './wait-for.ts'
export type { WaitOptions } from './wait-for.ts'
