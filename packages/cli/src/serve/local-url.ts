// Pure: how this machine itself reaches a controller that listens on `host`. An address that stands
// for all of them is reached through the loopback one.
export function localUrl({ host, port }: { host: string; port: number }): string {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`
  if (host === '::') return `http://[::1]:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
