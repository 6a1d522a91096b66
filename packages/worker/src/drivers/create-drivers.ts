// Every protocol that backends may speak.
import type { Clock } from '@muster/host'
import type { Driver } from './driver.ts'
import { createOpenAiHttpDriver } from './openai-http.ts'

export function createDrivers(deps: { clock: Clock }): Readonly<Partial<Record<Driver['name'], Driver>>> {
  return { 'openai-http': createOpenAiHttpDriver(deps) }
}
