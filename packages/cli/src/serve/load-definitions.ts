// The settings of controller and worker, loaded when a command needs them: what only talks to a
// controller starts without either.
import { defineSettings } from '@muster/host'

export async function loadControllerSettings() {
  const { controllerSettings } = await import('@muster/controller')
  return defineSettings(controllerSettings)
}

export async function loadWorkerSettings() {
  const { workerSettings } = await import('@muster/worker')
  return defineSettings(workerSettings)
}
