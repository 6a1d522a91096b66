// Every protocol that backends may speak.
import type { Clock } from '@muster/host'
import type { Driver } from './driver.ts'
import { createLocalAiGrpcDriver } from './localai-grpc/localai-grpc.ts'
import { createOpenAiHttpDriver } from './openai-http.ts'

export function createDrivers(deps: { clock: Clock }): Readonly<Record<Driver['name'], Driver>> {
  return { 'openai-http': createOpenAiHttpDriver(deps), 'localai-grpc': createLocalAiGrpcDriver(deps) }
}
