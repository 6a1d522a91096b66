// Assigns processes to replicas, and finds the GPU memory of replicas where no tool lists processes (AMD, Intel): the kernel
// reports it in /proc/<pid>/fdinfo. Only processes of replicas are looked at, which are few.
import type { ReplicaId } from '@muster/protocol'
import { type Gpu, type GpuUser, parseFdinfo } from './gpu-tools.pure.ts'
import type { HostFiles } from './host-files.ts'
import type { ProcessOwners } from './resources.pure.ts'

/** Replicas by the process that leads their group. */
export type ReplicaLeaders = ReadonlyMap<number, ReplicaId>

const maxFiles = 512

/** Every process of the groups of replicas. */
export async function findOwners(files: HostFiles, leaders: ReplicaLeaders): Promise<ProcessOwners> {
  const owners = new Map<number, ReplicaId>()
  if (leaders.size === 0) return owners
  for (const entry of await files.list('/proc')) {
    if (!/^[1-9]\d*$/.test(entry)) continue
    const replica = leaders.get(groupIn((await files.read(`/proc/${entry}/stat`)) ?? ''))
    if (replica !== undefined) owners.set(Number(entry), replica)
  }
  return owners
}

/** The name of the program is in brackets and may contain anything; state, parent and group follow. */
const groupIn = (stat: string): number => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2] ?? 0)

/** Cards whose processes no tool reported get those of replicas. */
export async function withReplicaMemory(gpus: readonly Gpu[], files: HostFiles, owners: ProcessOwners): Promise<readonly Gpu[]> {
  if (!gpus.some(isUnlisted)) return gpus
  const users = new Map<string, GpuUser[]>()
  for (const pid of owners.keys()) {
    const name = ((await files.read(`/proc/${pid}/comm`)) ?? '').trim()
    for (const [device, bytes] of await memoryOf(files, pid)) users.set(device, [...(users.get(device) ?? []), { pid, bytes, name }])
  }
  return gpus.map((gpu) => (isUnlisted(gpu) ? { ...gpu, processes: users.get(gpu.device ?? '') ?? [] } : gpu))
}

const isUnlisted = ({ processes, device }: Gpu): boolean => processes === undefined && device !== undefined

/** Several descriptors of one client report the same memory. */
async function memoryOf(files: HostFiles, pid: number): Promise<ReadonlyMap<string, number>> {
  const clients = new Map<string, Readonly<{ device: string; bytes: number }>>()
  for (const descriptor of (await files.list(`/proc/${pid}/fdinfo`)).slice(0, maxFiles)) {
    const found = parseFdinfo((await files.read(`/proc/${pid}/fdinfo/${descriptor}`)) ?? '')
    if (found !== null) clients.set(`${found.device} ${found.client}`, found)
  }
  const sums = new Map<string, number>()
  for (const { device, bytes } of clients.values()) sums.set(device, (sums.get(device) ?? 0) + bytes)
  return sums
}
