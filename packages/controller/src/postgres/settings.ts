// How the embedded server is set: durable, private, small. Given on the command line at each start, so that a data directory made
// by an older Muster gets the settings of the newer one.
import { port } from './socket-dir.ts'

export function serverSettings({ socketDir, major }: { socketDir: string; major: number }): string[] {
  const settings: Record<string, string> = {
    listen_addresses: '',
    port: String(port),
    // A list whose parts may be quoted: a comma or a blank in the path is not a separator then.
    unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',

    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',

    shared_buffers: '64MB',
    max_connections: '100',
    // Nothing copies this server's log of changes; without that, less has to be written.
    wal_level: 'minimal',
    max_wal_senders: '0',
    max_wal_size: '256MB',
    min_wal_size: '64MB',
    jit: 'off',
    max_parallel_workers_per_gather: '0',
    // Readers as processes of their own pay on large machines.
    ...(major >= 18 ? { io_method: 'sync' } : {}),

    timezone: 'UTC',
    log_timezone: 'UTC',
    logging_collector: 'off',
    log_checkpoints: 'off',
    log_line_prefix: '%m [%p] %a ',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}
