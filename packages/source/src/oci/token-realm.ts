// Where a registry may send us for a token. A registry names its token service itself, and credentials go there: so it
// has to be of the same owner, or be listed by an operator.
import { FleetError } from '@muster/protocol'
import { parseIpAddress } from '../outbound/ip-address.ts'

/** Names under which anybody gets a name of their own. Not all of them: those under which registries are found. */
const sharedSuffixes: ReadonlySet<string> = new Set([
  'azurecr.io',
  'azurecr.cn',
  'amazonaws.com',
  'pkg.dev',
  'run.app',
  'appspot.com',
  'web.app',
  'github.io',
  'gitlab.io',
  'cloudfront.net',
  'azurewebsites.net',
  'azureedge.net',
  'windows.net',
  'aliyuncs.com',
  'myhuaweicloud.com',
  'digitaloceanspaces.com',
  'herokuapp.com',
  'workers.dev',
  'pages.dev',
  'vercel.app',
  'netlify.app',
  'fly.dev',
  'onrender.com',
  'ngrok.io',
  'ngrok.app',
  'nip.io',
  'sslip.io',
  'duckdns.org',
])
/** `co.uk`, `com.au` and their like: below a country, these belong to nobody. */
const sharedBelowCountries: ReadonlySet<string> = new Set(['ac', 'co', 'com', 'edu', 'go', 'gov', 'mil', 'ne', 'net', 'or', 'org'])

/** The name that somebody registered; the host itself where that can't be told. */
export function registrableHost(host: string): string {
  const labels = host.split('.')
  if (parseIpAddress(host.replace(/^\[(.*)\]$/, '$1')) !== null || labels.length <= 2) return host
  const [second = '', top = ''] = labels.slice(-2)
  // There may be a region below a shared suffix (`eu-west-1.amazonaws.com`): only the whole host is surely one owner's.
  if (sharedSuffixes.has(`${second}.${top}`)) return host
  return labels.slice(top.length === 2 && sharedBelowCountries.has(second) ? -3 : -2).join('.')
}

export function checkRealm(realm: string | undefined, { registry, isListed }: { registry: URL; isListed: (url: URL) => boolean }): URL {
  const url = realm === undefined || realm.length > 2048 ? null : URL.parse(realm)
  if (url === null) return refuse(`${registry.host} asks for a token and does not say from where`)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return refuse(`${registry.host} asks for a token from ${url.protocol}//…`)
  if (registry.protocol === 'https:' && url.protocol === 'http:') return refuse(`${registry.host} asks for a token over plain http`)
  if (url.username !== '' || url.password !== '') return refuse(`${registry.host} asks for a token from a URL with a password`)
  if (registrableHost(url.hostname) !== registrableHost(registry.hostname) && !isListed(url))
    return refuse(`${registry.host} asks for a token from ${url.host}, which is another host; to allow it: --allow-source ${url.host}`)
  url.hash = ''
  return url
}

function refuse(reason: string): never {
  throw new FleetError({ code: 'invalid', retry: 'never', message: `source_forbidden: ${reason}`.slice(0, 1000) })
}
