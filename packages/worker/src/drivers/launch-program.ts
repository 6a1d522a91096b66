// The command line and environment of a backend: `backend.json` with its placeholders filled in. Never a shell.
import { isAbsolute, join, normalize } from 'node:path'
import { FleetError, unreachable } from '@muster/protocol'
import type { BackendAddress, Launch, ReplicaSpec } from './driver.ts'

/** The form that a backend gets on its command line. */
export function showAddress(address: BackendAddress): string {
  switch (address.kind) {
    case 'tcp':
      return `${address.host}:${address.port}`
    case 'unix':
      return `unix:${address.path}`
    default:
      return unreachable(address)
  }
}

/** A unix socket for a command with `{socket}`; otherwise a loopback port. */
export const addressKindOf = (command: readonly string[]): BackendAddress['kind'] =>
  command.some((part) => part.includes('{socket}')) ? 'unix' : 'tcp'

export function fillCommand(command: readonly string[], spec: ReplicaSpec, address: BackendAddress): Launch['argv'] {
  const [program = '', ...args] = command
  const values: Record<string, string> = {
    '{node}': process.execPath,
    '{addr}': showAddress(address),
    '{socket}': address.kind === 'unix' ? address.path : showAddress(address),
  }
  const fill = (text: string): string => text.replaceAll(/\{(?:node|addr|socket)\}/g, (name) => values[name] ?? name)
  return [program === '{node}' ? process.execPath : insideTree(spec, program), ...args.map(fill)]
}

function insideTree({ backend, directory }: ReplicaSpec, program: string): string {
  const path = normalize(program)
  if (isAbsolute(path) || path === '..' || path.startsWith('../') || path === '.') {
    throw new FleetError({
      code: 'invalid',
      retry: 'never',
      message: `the backend ${backend} names a program outside of its files: ${program}`,
    })
  }
  return join(directory, path)
}

/** The variables that describe the model; `backend.json` cannot override them. */
export function modelEnv(spec: ReplicaSpec): Record<string, string> {
  const { config } = spec
  return {
    ...spec.description?.env,
    MUSTER_REPLICA_ID: spec.replicaId,
    MUSTER_MODEL_NAME: spec.model,
    MUSTER_MODEL_OPTIONS: JSON.stringify(config.options),
    MUSTER_MODEL_PARAMETERS: JSON.stringify(config.parameters),
    ...(spec.modelPath === null ? {} : { MUSTER_MODEL_PATH: spec.modelPath }),
    ...(config.context_size === undefined ? {} : { MUSTER_CONTEXT_SIZE: String(config.context_size) }),
  }
}
